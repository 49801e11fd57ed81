export { type BusFigures, NatsBus, type NatsBusOptions, type RequestEnd, requestEnds } from './nats-bus.ts'
