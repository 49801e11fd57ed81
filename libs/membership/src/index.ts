export { clockOffsets, clockToleranceMs, isClockOff } from './clocks.ts'
export {
  assertFacts,
  assertLoad,
  type Member,
  type MemberFacts,
  type MemberRole,
  type Membership,
  maxMembers,
  type Subscription,
} from './membership.ts'
export { MemoryMembership, type MemoryMembershipOptions } from './memory-membership.ts'
