import { asBuffer } from '@holdfast/kernel'

/** The bytes of a column: little-endian, as in the memory of every machine that Node runs on. */
export function columnBytes(column: Float64Array | Uint32Array | Uint16Array): Buffer {
  return asBuffer(column)
}
