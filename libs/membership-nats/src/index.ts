export { NatsMembership, type NatsMembershipOptions, type Report } from './nats-membership.ts'
