/** For tests of what asks accounts. */
import type { RoutedAccountClientOptions } from './routed-account-client.ts'

/** Default parts of a client in tests. */
export const plainClient: Omit<RoutedAccountClientOptions, 'bus' | 'hostOf'> = {
  local: undefined,
  onHostsChanged: undefined,
  onSilent: undefined,
  unwritable: undefined,
  clock: undefined,
  timers: undefined,
  randomness: undefined,
}
