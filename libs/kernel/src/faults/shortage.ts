const codes = new Set(['EMFILE', 'ENFILE', 'ENOMEM', 'ERR_MEMORY_ALLOCATION_FAILED'])

/**
 * The process or the machine has no descriptors or no memory left. This says nothing about the
 * data: retry.
 */
export function isShortage(error: unknown): boolean {
  const { code, message } = (error ?? {}) as { code?: string; message?: string }
  if (codes.has(code ?? '')) return true
  // V8 gives its own errors no code.
  return error instanceof RangeError && /allocation failed/i.test(message ?? '')
}
