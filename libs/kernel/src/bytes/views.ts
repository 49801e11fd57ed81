/** The same memory as a Buffer. */
export function asBuffer(bytes: ArrayBufferView): Buffer {
  if (bytes instanceof Buffer) return bytes
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}

/** Each byte is a character: a key of a map. */
export function latin1(bytes: Uint8Array): string {
  return asBuffer(bytes).toString('latin1')
}
