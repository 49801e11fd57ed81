/** The fields of an upload, in any position of the form. */
import { integerOf, oneToken, parseModTime, RefusalError } from '@holdfast/http-kit'
import { GrowingBytes, isUuid } from '@holdfast/kernel'
import type { PartHead } from './form-scanner.ts'

/** Longest value of a known field; a token has 64 characters. */
const fieldBytesMax = 4 * 1024

const known = ['token', 'folderId', 'modTime'] as const
type FieldName = (typeof known)[number]

/** Gathers fields as their bytes come. A field's content is checked only when it is asked for. */
export class UploadForm {
  readonly #values: Record<FieldName, string | undefined> = {
    token: undefined,
    folderId: undefined,
    modTime: undefined,
  }
  /** Came twice or are too long. */
  readonly #bad: FieldName[] = []
  readonly #headerToken: string | undefined
  #current: { name: FieldName; value: GrowingBytes; bytes: number } | undefined

  /** @param headerToken of the Authorization header. */
  constructor(headerToken: string | undefined) {
    this.#headerToken = headerToken
  }

  /** A part that is not the file begins. */
  begin(part: PartHead): void {
    const name = known.find((one) => one === part.name)
    this.#current =
      name === undefined || part.fileName !== undefined
        ? undefined
        : { name, value: new GrowingBytes(), bytes: 0 }
  }

  data(bytes: Buffer): void {
    if (this.#current === undefined) return
    this.#current.bytes += bytes.length
    if (this.#current.bytes <= fieldBytesMax) this.#current.value.append(bytes)
  }

  end(): void {
    if (this.#current === undefined) return
    const { name, bytes } = this.#current
    const value = this.#current.value.view().toString().trim()
    if (bytes > fieldBytesMax || this.#values[name] !== undefined) this.#bad.push(name)
    this.#values[name] = value
    this.#current = undefined
  }

  /**
   * Undefined when none was sent so far.
   * @throws RefusalError error-token when it came twice, or differs from the header's
   */
  get token(): string | undefined {
    if (this.#bad.includes('token')) throw new RefusalError('error-token')
    return oneToken(this.#headerToken, this.#values.token)
  }

  /**
   * Undefined when none was sent; empty counts as none.
   * @throws RefusalError error-folderId unless it is one UUID
   */
  get folderId(): string | undefined {
    const value = this.#values.folderId ?? ''
    if (this.#bad.includes('folderId') || (value !== '' && !isUuid(value)))
      throw new RefusalError('error-folderId')
    return value === '' ? undefined : value.toLowerCase()
  }

  /** Something was sent as folderId, valid or not. */
  get namesFolder(): boolean {
    return (this.#values.folderId ?? '') !== ''
  }

  /** Unix seconds; undefined when none was sent. @throws RefusalError error-modTime */
  get modTime(): number | undefined {
    if (this.#bad.includes('modTime')) throw new RefusalError('error-modTime')
    const value = this.#values.modTime ?? ''
    if (value === '') return undefined
    const time = integerOf(value)
    const seconds = time === undefined ? undefined : parseModTime(time)
    if (seconds === undefined) throw new RefusalError('error-modTime')
    return seconds
  }
}
