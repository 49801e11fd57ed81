export { type HeartbeatReport, NatsMembership, type NatsMembershipOptions } from './nats-membership.ts'
