export {
  type AccountOperation,
  isCommand,
  type OperationName,
  type OperationTraits,
  operations,
} from './account-operation.ts'
export { blank } from './blank.ts'
export * from './gen/holdfast/account/v1/checkpoint.ts'
export * from './gen/holdfast/account/v1/event.ts'
export * from './gen/holdfast/account/v1/item.ts'
export * from './gen/holdfast/account/v1/reply.ts'
export * from './gen/holdfast/account/v1/request.ts'
