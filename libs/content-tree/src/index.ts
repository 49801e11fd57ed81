export type {
  AccountState,
  AccountStates,
  CheckpointBase,
  CheckpointCut,
  DecideContext,
  Outcome,
  TierLimits,
  TreeSettings,
} from './contract.ts'
export { createAccountStates } from './state.ts'
