export {
  type HeartbeatReport,
  NatsMembership,
  type NatsMembershipOptions,
  type NatsMembershipTuning,
  plainReport,
} from './nats-membership.ts'
