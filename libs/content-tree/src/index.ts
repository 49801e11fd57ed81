export type {
  AccountState,
  AccountStates,
  DecideContext,
  Outcome,
  TierLimits,
  TreeSettings,
} from './contract.ts'
export { createAccountStates } from './state.ts'
