export const tokenForm = '16 to 512 printable characters without spaces'

/** @throws Error when the secret is too short to be one, or does not fit a header */
export function token(value: string): void {
  if (!/^[\x21-\x7e]{16,512}$/.test(value)) throw new Error(`must be ${tokenForm}`)
}
