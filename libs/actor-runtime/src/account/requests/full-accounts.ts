/**
 * Which operations pass while an account's checkpoint cannot be written: reads, and changes that
 * make it smaller.
 */
import { type AccountRequest, isCommand, operations } from '@holdfast/wire'

/** Whether it may change something. */
export function mayChange({ operation }: AccountRequest): boolean {
  return operation !== undefined && isCommand(operation.$case)
}

/** @param crammed there is no room left even for changes that make the state smaller. */
export function passes({ operation }: AccountRequest, { crammed }: { crammed: boolean }): boolean {
  const effect = operation && operations[operation.$case].effect
  return effect !== 'grows' && !(crammed && effect === 'shrinks')
}
