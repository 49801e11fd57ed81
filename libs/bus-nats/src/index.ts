export { NatsBus, type NatsBusOptions } from './nats-bus.ts'
