export type {
  AccountState,
  AccountStates,
  CheckpointBase,
  CheckpointCut,
  DecideContext,
  Lifetimes,
  Outcome,
  TierLimits,
  TreeSettings,
} from './contract.ts'
export { noLifetimes } from './contract.ts'
export { metadataBytesMax } from './limits.ts'
export { createAccountStates } from './state.ts'
