export {
  type HeartbeatReport,
  NatsMembership,
  type NatsMembershipOptions,
  plainReport,
} from './nats-membership.ts'
