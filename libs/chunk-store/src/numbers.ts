/** Little-endian 64-bit numbers as JavaScript numbers; exact up to 2^53. */
export function putU64(bytes: Buffer, value: number, at: number): void {
  bytes.writeUInt32LE(value % 0x1_0000_0000, at)
  bytes.writeUInt32LE(Math.floor(value / 0x1_0000_0000), at + 4)
}

export function getU64(bytes: Buffer, at: number): number {
  return bytes.readUInt32LE(at + 4) * 0x1_0000_0000 + bytes.readUInt32LE(at)
}

export function alignUp(value: number, step: number): number {
  return Math.ceil(value / step) * step
}
