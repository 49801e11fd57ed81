export { AgreedClock } from './agreed-clock.ts'
export { clockOffsets, isClockOff } from './clocks.ts'
export {
  assertLoad,
  assertMemberInfo,
  type Member,
  type MemberInfo,
  type MemberRole,
  type Membership,
  maxMembers,
} from './membership.ts'
export { MemoryMembership, type MemoryMembershipOptions } from './memory-membership.ts'
