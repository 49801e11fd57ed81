/** Whether both have the same bytes. Takes longer the more of them agree: not for secrets. */
export function equalBytes(one: Uint8Array, other: Uint8Array): boolean {
  return Buffer.compare(one, other) === 0
}
