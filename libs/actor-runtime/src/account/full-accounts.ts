/**
 * Which operations pass while an account's checkpoint cannot be written: reads, and changes that
 * make it smaller.
 */
import type { AccountOperation, AccountRequest } from '@holdfast/wire'

type Name = AccountOperation['$case']

/** Changes that add to the state, or that can wait. An operation in neither set changes nothing. */
const waiting: ReadonlySet<Name | undefined> = new Set<Name>([
  'createAccount',
  'addFile',
  'createFolder',
  'updateContent',
  'copyContents',
  'moveContents',
  'putDirectLink',
  'setAccount',
  'addLegacyFolder',
  'restoreContents',
  'undoSweeps',
  'reportDownloads',
  'sendSignIn',
  'confirmEmail',
])

const passing: ReadonlySet<Name | undefined> = new Set<Name>([
  'deleteContents',
  'deleteDirectLink',
  'emptyBin',
  'resetToken',
  'tick',
])

/** Whether it may change something. */
export function isCommand({ operation }: AccountRequest): boolean {
  return waiting.has(operation?.$case) || passing.has(operation?.$case)
}

/** @param crammed there is no room left even for changes that make the state smaller. */
export function passes({ operation }: AccountRequest, { crammed }: { crammed: boolean }): boolean {
  const name = operation?.$case
  return !waiting.has(name) && !(crammed && passing.has(name))
}
