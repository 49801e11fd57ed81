export { type Bus, maxMessageBytes, type Subscription } from './bus.ts'
export { BusFault, type BusFaultCode } from './errors.ts'
export { MemoryBus, type MemoryBusOptions } from './memory-bus.ts'
export { ReplyJoiner, splitReply } from './parts.ts'
