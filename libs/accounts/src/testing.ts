/** For tests of what asks accounts. */
import type { RoutedAccountClientOptions } from './routed-account-client.ts'

/** What a client does without. */
export const plainClient: Omit<RoutedAccountClientOptions, 'bus' | 'hostOf'> = {
  local: undefined,
  onHostsChanged: undefined,
  onSilent: undefined,
  unwritable: undefined,
  clock: undefined,
  timers: undefined,
  randomness: undefined,
}
