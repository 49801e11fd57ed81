export { metadataBytesMax, treeDepthMax } from './bounds.ts'
export type {
  AccountState,
  AccountStates,
  CheckpointBase,
  CheckpointCut,
  CodeBlock,
  DecideContext,
  Lifetimes,
  Outcome,
  TierLimits,
  TreeSettings,
} from './contract.ts'
export { createAccountStates } from './state.ts'
