/**
 * Many short byte strings as one, for messages between threads: each buffer of a message is cloned
 * with its whole backing memory, and a short Buffer is in a shared pool of 8 KiB.
 *
 *   count (4) | lengths (4 each; 0xffffffff: undefined) | bytes
 */
const none = 0xffff_ffff

export function pack(parts: readonly (Uint8Array | undefined)[]): Uint8Array {
  const headBytes = 4 + 4 * parts.length
  let bytes = headBytes
  for (const part of parts) bytes += part?.length ?? 0
  const packed = Buffer.allocUnsafeSlow(bytes)
  packed.writeUInt32LE(parts.length, 0)
  let at = headBytes
  for (let n = 0; n < parts.length; n++) {
    const part = parts[n]
    packed.writeUInt32LE(part?.length ?? none, 4 + 4 * n)
    if (part === undefined) continue
    packed.set(part, at)
    at += part.length
  }
  return packed
}

/** Views on the packed bytes. */
export function unpack(packed: Uint8Array): (Buffer | undefined)[] {
  const bytes = Buffer.from(packed.buffer, packed.byteOffset, packed.byteLength)
  const count = bytes.readUInt32LE(0)
  const parts = new Array<Buffer | undefined>(count)
  let at = 4 + 4 * count
  for (let n = 0; n < count; n++) {
    const length = bytes.readUInt32LE(4 + 4 * n)
    if (length === none) continue
    parts[n] = bytes.subarray(at, at + length)
    at += length
  }
  return parts
}
