export { type Bus, maxMessageBytes, type Subscription } from './bus.ts'
export { BusFault, type BusFaultCode } from './errors.ts'
export { MemoryBus, type MemoryBusOptions, requestsInFlightMax } from './memory-bus.ts'
export { maxReplyBytes, ReplyJoiner, splitReply } from './parts.ts'
