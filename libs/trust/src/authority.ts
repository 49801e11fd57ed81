/**
 * The authorities of one installation: a directory with their keys and certificates, and beside
 * them a folder with the files of each host.
 *
 *   ca.pem, ca.key            of the authority; the key never leaves the operator's machine
 *   cassandra-ca.pem, .key    of a second one, for what nodes of Cassandra say to each other
 *   earlier-ca.pem, earlier-cassandra-ca.pem  what they replace, while hosts have to trust both
 *   <host>/ca.pem             the authority again, and the one that it replaces
 *   <host>/node.pem, node.key the host's certificate and its key
 *   <host>/cassandra.pem      both in one file, as Cassandra reads them
 *   <host>/public.pem, .key   of a proxy, for the names that users call
 *   <host>/proxy.pem, .key    of a proxy, on the cluster's own network
 *   <host>/prometheus.pem, .key  of Prometheus and alertmanager there
 *   <host>/internode.pem      key and certificate of a node of Cassandra for its peers
 *   <host>/cassandra-ca.pem   the second authority again, and the one that it replaces
 *
 * Cassandra takes any peer whose certificate it trusts, and gives it every row. So it trusts only
 * certificates that no other process has.
 *
 * Keys are on P-256. A certificate of a host is for servers and for clients: processes call each
 * other. Files are written whole under another name and renamed, so that a reader never sees half
 * of one. The program `openssl` does the work.
 */
import { execFile } from 'node:child_process'
import { randomBytes, X509Certificate } from 'node:crypto'
import { chmod, mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { isIP } from 'node:net'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { type CertificateInfo, certificateInfoOf } from './certificate-info.ts'

export interface HostNames {
  /** The name of the folder, and the common name. */
  host: string
  /** Further names and addresses under which others call it. */
  names: readonly string[]
}

export interface IssuedFiles extends CertificateInfo {
  host: string
  kind: Kind
}

/**
 * `public` is for the names of a proxy that users call, the others are for the cluster's own
 * network: one for each user of a host, so that none reads the key of another one.
 */
const kinds = ['node', 'public', 'proxy', 'prometheus', 'internode'] as const
export type Kind = (typeof kinds)[number]

/** Something is missing, exists already, or `openssl` refused. */
export class AuthorityFault extends Error {
  override readonly name = 'AuthorityFault'
  readonly code = 'AUTHORITY'
}

const privateMode = 0o600
const run = promisify(execFile)
/** RFC 1035: 63 signs between two dots, 253 altogether. Also a safe name of a folder. */
const hostName = /^(?=.{1,253}$)[a-z0-9][a-z0-9-]{0,62}(\.[a-z0-9-]{1,63})*$/
/** X.520. */
const commonNameMax = 64
const newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes']

type Signer = 'ca' | 'cassandra-ca'

function signerOf(kind: Kind): Signer {
  return kind === 'internode' ? 'cassandra-ca' : 'ca'
}

export class Authority {
  readonly #directory: string

  /** Makes both authorities. @throws AuthorityFault when the directory has one already */
  static async create(directory: string, { name, days }: { name: string; days: number }): Promise<Authority> {
    if ((await textOf(join(directory, 'ca.key'))) !== undefined)
      throw new AuthorityFault(`${directory} has an authority already`)
    await mkdir(directory, { recursive: true, mode: 0o700 })
    // This one is last: it shows that all is there.
    for (const signer of ['cassandra-ca', 'ca'] as const) await makeSigner(directory, signer, { name, days })
    return new Authority(directory)
  }

  /** @throws AuthorityFault when there is none */
  static async open(directory: string): Promise<Authority> {
    for (const file of ['ca.pem', 'ca.key'])
      if (!(await textOf(join(directory, file))))
        throw new AuthorityFault(
          `${directory} has no authority: ${file} is missing; ctl certs init makes one`,
        )
    return new Authority(directory)
  }

  private constructor(directory: string) {
    this.#directory = directory
  }

  /**
   * A new key and certificate of a host, in its folder.
   * @param days how long it is valid; 0 or less: it has expired, for tests
   */
  async issue(
    { host, names }: HostNames,
    { days, kind = 'node' }: { days: number; kind?: Exclude<Kind, 'public'> },
  ): Promise<IssuedFiles> {
    return this.#issue({ host, kind, names: [...new Set([host, ...names])] }, days)
  }

  /**
   * A new key and certificate of a host's proxy, for the names that users call. A certificate of
   * another authority is not replaced.
   * @returns undefined when it stayed
   */
  async issuePublic(
    { host, names }: HostNames,
    { days }: { days: number },
  ): Promise<IssuedFiles | undefined> {
    const pem = await textOf(join(this.#directory, host, 'public.pem'))
    if (pem && !(await this.#made(pem))) return undefined
    return this.#issue({ host, kind: 'public', names: [...new Set(names)] }, days)
  }

  /** An earlier release made no second authority. */
  async #madeSecond(): Promise<void> {
    const [key, certificate] = await Promise.all(
      ['key', 'pem'].map((end) => textOf(join(this.#directory, `cassandra-ca.${end}`))),
    )
    if (key && certificate) return
    if (key || certificate || (await this.issued()).some(({ kind }) => kind === 'internode'))
      throw new AuthorityFault(
        `${this.#directory} lacks cassandra-ca.key or cassandra-ca.pem: put its copy back. Remove the other one only if no node has a certificate of it`,
      )
    const { name, expiresMs } = await this.ofAuthority()
    const days = Math.max(1, Math.floor((expiresMs - Date.now()) / dayMs))
    await makeSigner(this.#directory, 'cassandra-ca', { name, days })
  }

  async #issue({ host, kind, names }: HostNames & { kind: Kind }, days: number): Promise<IssuedFiles> {
    const signer = signerOf(kind)
    if (!hostName.test(host)) throw new AuthorityFault(`${host} is no name of a host`)
    for (const name of names)
      if (!isIP(name) && !hostName.test(name)) throw new AuthorityFault(`${name} is no name of a host`)
    if (kind === 'internode') await this.#madeSecond()
    const folder = join(this.#directory, host)
    await mkdir(folder, { recursive: true, mode: 0o700 })
    return within(this.#directory, async (work) => {
      const file = (name: string) => join(work, name)
      await writeFile(
        file('extensions'),
        [
          'basicConstraints=critical,CA:FALSE',
          'keyUsage=critical,digitalSignature',
          `extendedKeyUsage=${kind === 'public' ? 'serverAuth' : 'serverAuth,clientAuth'}`,
          `subjectAltName=${names.map((name) => `${isIP(name) ? 'IP' : 'DNS'}:${name}`).join(',')}`,
        ].join('\n'),
      )
      await openssl([
        ...['req', '-new', ...newKey, '-subj', subjectOf(commonNameOf([...names, host]))],
        ...['-keyout', file('key'), '-out', file('request')],
      ])
      await openssl([
        ...['x509', '-req', '-sha256', '-in', file('request'), '-extfile', file('extensions')],
        ...['-CA', join(this.#directory, `${signer}.pem`), '-CAkey', join(this.#directory, `${signer}.key`)],
        // 0x40…: a positive number of a fixed length.
        ...['-set_serial', `0x40${randomBytes(15).toString('hex')}`, '-days', String(days)],
        ...['-out', file('certificate')],
      ])
      const [certificate, key, ca, earlier = ''] = await Promise.all([
        readFile(file('certificate'), 'utf8'),
        readFile(file('key'), 'utf8'),
        readFile(join(this.#directory, `${signer}.pem`), 'utf8'),
        textOf(join(this.#directory, `earlier-${signer}.pem`)),
      ])
      // Cassandra reads both from one file.
      const both = key + certificate
      const own: [name: string, text: string, mode: number][] =
        kind === 'internode'
          ? [['internode.pem', both, privateMode]]
          : [
              ...(kind === 'node' ? [['cassandra.pem', both, privateMode] as [string, string, number]] : []),
              [`${kind}.key`, key, privateMode],
              [`${kind}.pem`, certificate, 0o644],
            ]
      const issued: typeof own = [[`${signer}.pem`, ca + earlier, 0o644], ...own]
      for (const [name, text, mode] of issued) {
        await writeFile(file(`new-${name}`), text, { mode })
        await rename(file(`new-${name}`), join(folder, name))
      }
      return { host, kind, ...certificateInfoOf(certificate) }
    })
  }

  /** Renews certificates that end within some days. The names stay. */
  async renew({ withinDays, days }: { withinDays: number; days: number }): Promise<IssuedFiles[]> {
    const until = Date.now() + withinDays * dayMs
    const old = (await this.issued()).filter(({ expiresMs }) => expiresMs <= until)
    const renewed: IssuedFiles[] = []
    for (const { host, kind, names } of old)
      renewed.push(
        await this.#issue({ host, kind, names: names.map((name) => name.replace(/^[^:]*:/, '')) }, days),
      )
    return renewed
  }

  async ofAuthority(): Promise<CertificateInfo> {
    return certificateInfoOf(await readFile(join(this.#directory, 'ca.pem'), 'utf8'))
  }

  /** The one for Cassandra's nodes. Undefined: an earlier release made none. */
  async ofSecond(): Promise<CertificateInfo | undefined> {
    const pem = await textOf(join(this.#directory, 'cassandra-ca.pem'))
    return pem === undefined ? undefined : certificateInfoOf(pem)
  }

  /** All that these authorities have issued, by host. */
  async issued(): Promise<IssuedFiles[]> {
    const folders = (await readdir(this.#directory, { withFileTypes: true })).filter((one) =>
      one.isDirectory(),
    )
    const found: IssuedFiles[] = []
    for (const { name } of folders.sort((a, b) => (a.name < b.name ? -1 : 1))) {
      for (const kind of kinds) {
        const pem = await textOf(join(this.#directory, name, `${kind}.pem`))
        if (pem && (kind !== 'public' || (await this.#made(pem))))
          found.push({ host: name, kind, ...certificateInfoOf(pem) })
      }
    }
    return found
  }

  /** Whether it issued this certificate. Public ones may come from elsewhere. */
  async #made(pem: string): Promise<boolean> {
    const ca = new X509Certificate(await readFile(join(this.#directory, 'ca.pem')))
    return new X509Certificate(pem).verify(ca.publicKey)
  }
}

const dayMs = 86_400_000

/** The key is written last: it shows that the authority exists. */
async function makeSigner(
  directory: string,
  signer: Signer,
  { name, days }: { name: string; days: number },
): Promise<void> {
  const subject = signer === 'ca' ? name : `${name} Cassandra`
  await within(directory, async (work) => {
    const uses = ['basicConstraints=critical,CA:TRUE,pathlen:0', 'keyUsage=critical,keyCertSign,cRLSign']
    const [certificate, key] = [`${signer}.pem`, `${signer}.key`]
    await openssl([
      ...['req', '-x509', ...newKey, '-sha256', '-days', String(days), '-subj', subjectOf(subject)],
      ...uses.flatMap((use) => ['-addext', use]),
      ...['-keyout', join(work, key), '-out', join(work, certificate)],
    ])
    await chmod(join(work, key), privateMode)
    for (const file of [certificate, key]) await rename(join(work, file), join(directory, file))
  })
}

/** The first that is short enough, else the beginning of one: clients look at the names alone. */
function commonNameOf(names: readonly string[]): string {
  return names.find((name) => name.length <= commonNameMax) ?? (names[0] ?? '').slice(0, commonNameMax)
}

function subjectOf(name: string): string {
  return `/CN=${name.replaceAll(/[^\w .-]/g, '-')}`
}

/** A directory of its own for the work, on the same disk, readable by this user alone. */
async function within<T>(directory: string, work: (path: string) => Promise<T>): Promise<T> {
  const path = await mkdtemp(join(directory, '.new-'))
  try {
    return await work(path)
  } finally {
    await rm(path, { recursive: true, force: true })
  }
}

/** Undefined: there is no such file. One that cannot be read is a fault, never a missing one. */
async function textOf(path: string): Promise<string | undefined> {
  return readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined
    throw error
  })
}

async function openssl(args: string[]): Promise<void> {
  await run('openssl', args).catch((error: NodeJS.ErrnoException & { stderr?: string }) => {
    if (error.code === 'ENOENT')
      throw new AuthorityFault('the program openssl is missing: install its package')
    throw new AuthorityFault(`openssl ${args[0]}: ${error.stderr?.trim() || error.message}`)
  })
}
