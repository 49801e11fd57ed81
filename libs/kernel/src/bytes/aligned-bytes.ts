const pageBytes = 64 * 1024

/**
 * Private page-aligned memory, zeroed. Pages of a `WebAssembly.Memory` are the only page-aligned
 * memory that Node has, which O_DIRECT needs.
 */
export function alignedBytes(bytes: number): Buffer {
  const memory = new WebAssembly.Memory({ initial: Math.max(1, Math.ceil(bytes / pageBytes)) })
  return Buffer.from(memory.buffer, 0, bytes)
}
