/** For tests of what needs a NATS server. */
import type { NatsBusOptions } from './nats-bus.ts'

/** Default parts of a link in tests: without login and encryption. */
export const plainLink: Omit<NatsBusOptions, 'servers'> = {
  name: 'one',
  onLink: () => {},
  onHandlerError: () => {},
  onWaiting: () => {},
  credentials: undefined,
  tls: undefined,
}
