/** Checks content before others may read it. */

export type Verdict = { isClean: true } | { isClean: false; found: string }

export interface Scanner {
  /** Its kind and address, for the operator. */
  readonly name: string
  /**
   * Reads all of the content, or as much as it needs.
   * @param content each piece is valid until the next one is asked for.
   * @throws ScanFault when it gives no verdict; what the content throws; the signal's reason.
   */
  scan(content: AsyncIterable<Uint8Array>, options: { signal: AbortSignal }): Promise<Verdict>
}

/** There is no verdict. */
export class ScanFault extends Error {
  override readonly name = 'ScanFault'
  readonly code = 'SCAN'
}

/** Maximum characters of a scanner's message; the operator sees one line of it. */
export const wordsMax = 200

export function inWords(bytes: Uint8Array): string {
  const [line = ''] = Buffer.from(bytes).toString().replaceAll('\0', '').trim().split('\n', 1)
  // Control characters would change the operator's terminal.
  return line.replace(/\p{Cc}/gu, ' ').slice(0, wordsMax)
}
