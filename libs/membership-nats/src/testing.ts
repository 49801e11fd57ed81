/** For tests of members that find each other through NATS. */
import { systemClock } from '@holdfast/kernel'
import { type NatsMembershipOptions, plainReport } from './nats-membership.ts'

/** Default parts of a member in tests. */
export const plainMember: Omit<NatsMembershipOptions, 'bus' | 'info'> = {
  moreRoles: [],
  load: undefined,
  report: () => plainReport,
  clock: systemClock,
  onListenerError: () => {},
}
