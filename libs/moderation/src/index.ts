export {
  type Act,
  type ActsPage,
  aboutNothingElse,
  type DeletedContents,
  deletedPerRow,
  OperatorActs,
  undoMs,
} from './acts.ts'
export {
  type ActResult,
  type Attribution,
  type BlockChecks,
  BlockLists,
  type BlockListsOptions,
  isUndoable,
  nothingBlocked,
} from './block-lists.ts'
export { ModerationFault } from './fault.ts'
export { type BlockList, blockLists, isWide, listedName } from './names.ts'
export {
  type NewReport,
  type Report,
  type ReportCategory,
  type ReportState,
  Reports,
  type ReportsPage,
  reportCategories,
  reportOutcomes,
  reportStates,
  reportTextMax,
} from './reports.ts'
export {
  type NotesTransfers,
  nothingNoted,
  type Transfer,
  type TransferKind,
  TransferLog,
  type TransferLogOptions,
  type TransferPage,
  type TransferQuestion,
  type TransferRow,
  transferKinds,
} from './transfer-log.ts'
