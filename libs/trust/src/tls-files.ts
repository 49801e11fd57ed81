/**
 * The certificates that a process trusts and shows, from files that an operator may replace while
 * it runs.
 *
 * The files are read again every `reloadMs` and compared by content: this also sees the swapped
 * links of mounted secrets. They are used only together: the key has to match the certificate, and
 * the authority has to be one. So an operator can replace them one after the other. Files that do
 * not match are reported once, and the last valid files stay in use.
 */
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { createSecureContext, type SecureContext, type SecureContextOptions } from 'node:tls'
import { type CertificateInfo, certificateInfoOf } from './certificate-info.ts'

export interface TlsPaths {
  /** PEM, one or several authorities: both are valid while one replaces the other. */
  ca: string
  /** PEM files of the certificate that is shown, and of its key. Undefined: none is shown. */
  own: { cert: string; key: string } | undefined
}

/** The files of a client or a server for a handshake. */
export interface TlsContext {
  /** The current files: read them for every handshake. */
  readonly secureContext: SecureContext
  readonly pem: TlsPem
  /** Called after a change. @returns ends it */
  onChange(listener: () => void): () => void
}

/** The current files as options of a server or a context. */
export function certificatesOf({ pem: { ca, own } }: Pick<TlsContext, 'pem'>): SecureContextOptions {
  return { ca, ...own, minVersion: tlsVersion }
}

export interface TlsPem {
  ca: string
  own: { cert: string; key: string } | undefined
}

export interface TlsFilesOptions {
  read: (path: string) => string
  /** Undefined: a process that ends after one step reports no reloads. */
  onReload: ((certificates: readonly CertificateInfo[]) => void) | undefined
  /** New files cannot be used; called once for each reason. Undefined: as of `onReload`. */
  onFault: ((error: Error) => void) | undefined
}

export interface TlsFilesTuning {
  /** Default 5,000. */
  reloadMs?: number
}

/** How soon new files are used, by default. */
const reloadDefaultMs = 5_000
/** Between processes of one cluster no older protocol is needed. */
const tlsVersion = 'TLSv1.3'

interface LoadedTls {
  pem: TlsPem
  secureContext: SecureContext
  certificates: { ca: CertificateInfo; own: CertificateInfo | undefined }
}

export class TlsFiles implements TlsContext {
  readonly #paths: TlsPaths
  readonly #options: TlsFilesOptions
  readonly #listeners = new Set<() => void>()
  readonly #timer: NodeJS.Timeout
  #loaded: LoadedTls
  #reported: string | undefined

  /** @throws Error that names the file */
  static open(
    paths: TlsPaths,
    options: TlsFilesOptions,
    { reloadMs = reloadDefaultMs }: TlsFilesTuning = {},
  ): TlsFiles {
    return new TlsFiles(paths, options, { loaded: loadedFrom(paths, options.read), reloadMs })
  }

  private constructor(
    paths: TlsPaths,
    options: TlsFilesOptions,
    { loaded, reloadMs }: { loaded: LoadedTls; reloadMs: number },
  ) {
    this.#paths = paths
    this.#options = options
    this.#loaded = loaded
    this.#timer = setInterval(() => this.reload(), reloadMs)
    this.#timer.unref()
  }

  get secureContext(): SecureContext {
    return this.#loaded.secureContext
  }

  get pem(): TlsPem {
    return this.#loaded.pem
  }

  get certificates(): LoadedTls['certificates'] {
    return this.#loaded.certificates
  }

  onChange(listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  /** Reads the files now. @returns whether new ones count from now on */
  reload(): boolean {
    try {
      const loaded = loadedFrom(this.#paths, this.#options.read, this.#loaded)
      this.#reported = undefined
      if (loaded === this.#loaded) return false
      this.#loaded = loaded
    } catch (error) {
      const { message } = error as Error
      if (message !== this.#reported) this.#options.onFault?.(error as Error)
      this.#reported = message
      return false
    }
    const { ca, own } = this.#loaded.certificates
    this.#options.onReload?.(own === undefined ? [ca] : [ca, own])
    for (const listener of [...this.#listeners]) listener()
    return true
  }

  close(): void {
    clearInterval(this.#timer)
    this.#listeners.clear()
  }
}

function loadedFrom(paths: TlsPaths, read: (path: string) => string, last?: LoadedTls): LoadedTls {
  const text = (path: string) => {
    try {
      return read(path)
    } catch (error) {
      throw new Error(`${path} cannot be read: ${(error as Error).message}`)
    }
  }
  const own = paths.own && { cert: text(paths.own.cert), key: text(paths.own.key) }
  const pem: TlsPem = { ca: text(paths.ca), own }
  if (last !== undefined && isSame(last.pem, pem)) return last
  const authority = valid(paths.ca, () => certificateInfoOf(pem.ca))
  const shown = paths.own && own && valid(paths.own.cert, () => certificateInfoOf(own.cert))
  if (paths.own && own)
    valid(paths.own.key, () => {
      if (!new X509Certificate(own.cert).checkPrivateKey(createPrivateKey(own.key)))
        throw new Error(`it is not the key of ${paths.own?.cert}`)
    })
  return {
    pem,
    secureContext: createSecureContext(certificatesOf({ pem })),
    certificates: { ca: authority, own: shown },
  }
}

function valid<T>(path: string, check: () => T): T {
  try {
    return check()
  } catch (error) {
    throw new Error(`${path} cannot be used: ${(error as Error).message}`)
  }
}

function isSame(a: TlsPem, b: TlsPem): boolean {
  return a.ca === b.ca && a.own?.cert === b.own?.cert && a.own?.key === b.own?.key
}
