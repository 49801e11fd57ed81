import { asBuffer } from './views.ts'

/** Lower-case hex of the bytes, without copying them. */
export function hex(bytes: Uint8Array): string {
  return asBuffer(bytes).toString('hex')
}
