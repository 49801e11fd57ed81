/** The operations of an account, and what other parts have to know of each. */
import type { AccountRequest } from './gen/holdfast/account/v1/request.ts'

/** The operation of a request to an account. */
export type AccountOperation = NonNullable<AccountRequest['operation']>

export type OperationName = AccountOperation['$case']

export interface OperationTraits {
  /** Its field number in AccountRequest. Results of commands are kept with it. */
  number: number
  /**
   * `reads`: the operation only reads the state. `shrinks`: the state gets smaller; such commands
   * are accepted even while no checkpoint can be written. `grows`: the state grows, or the command
   * can wait.
   */
  effect: 'reads' | 'shrinks' | 'grows'
  /** A read that can be answered from what is stored, where the account cannot be changed. */
  isStored: boolean
  /** A command for whose request a client may choose the id (`Idempotency-Key`). */
  isKeyed: boolean
}

const read = { effect: 'reads', isStored: true, isKeyed: false } as const
const growing = { effect: 'grows', isStored: false, isKeyed: false } as const
const shrinking = { effect: 'shrinks', isStored: false, isKeyed: false } as const

export const operations: Readonly<Record<OperationName, OperationTraits>> = {
  authenticate: { number: 10, ...read },
  getAccount: { number: 11, ...read },
  readContent: { number: 12, ...read },
  searchContents: { number: 13, ...read },
  checkUpload: { number: 14, ...read, isStored: false },
  openFile: { number: 15, ...read },
  openDirectLink: { number: 16, ...read },
  takeManifest: { number: 17, ...read },
  readBin: { number: 18, ...read },
  findCode: { number: 19, ...read },
  reconcile: { number: 20, ...read, isStored: false },
  readHeld: { number: 21, ...read },
  findContents: { number: 22, ...read },
  openArchive: { number: 23, ...read },
  createAccount: { number: 30, ...growing, isKeyed: true },
  addFile: { number: 31, ...growing, isKeyed: true },
  createFolder: { number: 32, ...growing, isKeyed: true },
  updateContent: { number: 33, ...growing, isKeyed: true },
  deleteContents: { number: 34, ...shrinking, isKeyed: true },
  copyContents: { number: 35, ...growing, isKeyed: true },
  moveContents: { number: 36, ...growing, isKeyed: true },
  putDirectLink: { number: 37, ...growing, isKeyed: true },
  deleteDirectLink: { number: 38, ...shrinking, isKeyed: true },
  resetToken: { number: 39, ...shrinking, isKeyed: true },
  setAccount: { number: 40, ...growing },
  addLegacyFolder: { number: 41, ...growing },
  restoreContents: { number: 42, ...growing, isKeyed: true },
  emptyBin: { number: 43, ...shrinking, isKeyed: true },
  reportDownloads: { number: 44, ...growing },
  tick: { number: 45, ...shrinking },
  sendSignIn: { number: 46, ...growing },
  confirmEmail: { number: 47, ...growing, isKeyed: true },
  undoSweeps: { number: 48, ...growing },
}

export function isCommand(name: OperationName): boolean {
  return operations[name].effect !== 'reads'
}
