export { type Act, type ActsPage, OperatorActs } from './acts.ts'
export {
  type Asked,
  type Blocked,
  BlockLists,
  type BlockListsOptions,
  type Done,
  nothingBlocked,
} from './block-lists.ts'
export { ModerationFault } from './fault.ts'
export { type BlockList, blockLists, nameOf } from './names.ts'
