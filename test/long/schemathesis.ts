/**
 * The OpenAPI document against the real service: schemathesis makes requests that the document
 * allows and others that it does not, of every operation, and compares what comes back. No answer
 * may be a fault of the service (5xx) or have an undocumented status, no valid request may be
 * refused, no invalid one accepted.
 *
 * Four parts: the API host; the operations that name a content or an account, with existing ones;
 * those that end the token they are called with; uploads, which are on another host. Each has its
 * own account.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pypiPrograms } from '../../infra/tools/pypi-programs.ts'
import { decimalForm } from '../../libs/http-kit/src/index.ts'
import { Standalone } from '../support/standalone.ts'

const uploads = '/uploadfile'
/** Operations that change a content and keep it, or read it; the caller's own account. */
const named =
  '^/(web/)?contents/(\\{contentId\\}(/update|/directlinks)?|createFolder|copy|import|move|search)$|^/accounts/\\{accountId\\}$'
/** They end the token, and with it everything the others are tested with. */
const endings = '(resettoken|confirm)$'

const config = join(import.meta.dirname, 'schemathesis.toml')
const hooks = join(import.meta.dirname, 'schemathesis_hooks.py')
const own = 'own content and account'

export interface Options {
  /** For all parts together: the API host has half of them. */
  seconds: number
  seed: number
}

/** On average per part; fewer say nothing. */
const requestsPerOperationMin = 10

/** The closing lines of each part. @throws with the whole report when a part found something */
export async function conformance({ seconds, seed }: Options): Promise<string> {
  const programs = await pypiPrograms([join(import.meta.dirname, 'pins/schemathesis.txt')])
  const program = join(programs, 'schemathesis/bin/schemathesis')
  const folder = await mkdtemp(join(tmpdir(), 'holdfast-schemathesis-'))
  const service = await Standalone.start()
  try {
    const part = async (name: string, share: number, words: string[], url = service.api) => {
      const account = await premiumAccount(service)
      const common = [
        '--url',
        url,
        '--header',
        `Authorization: Bearer ${account.token}`,
        '--seed',
        String(seed),
      ]
      const limits = ['--max-time', String(Math.ceil(seconds * share)), '--continue-on-failure']
      const isOwn = name === own
      const settings = isOwn ? await namedIn(folder, account) : config
      const ids = isOwn ? await idsOf(service, account) : {}
      const document = await narrowedDocument(service, folder, ids)
      const args = ['--config-file', settings, 'run', document, ...common, ...limits, ...words]
      const { code, output } = await outputOf(program, args, folder)
      const end = output.slice(Math.max(0, output.lastIndexOf('= SUMMARY =')))
      if (code !== 0) throw new Error(`schemathesis, ${name}, ended with ${code}:\n${output}`)
      // It also succeeds when its time was over after a few requests.
      const [, selected] = /Selected: (\d+)/.exec(end) ?? []
      const [, made] = /(\d+) generated/.exec(end) ?? []
      if (!(Number(made) >= Number(selected) * requestsPerOperationMin))
        throw new Error(`schemathesis, ${name}: too few requests, try more --api-seconds:\n${end}`)
      return `  ${name}\n${end
        .replace(/^.*\n+/, '')
        .replace(/^(?=.)/gm, '    ')
        .trimEnd()}`
    }
    return [
      await part('API host', 0.5, ['--exclude-path', uploads, '--exclude-path-regex', endings]),
      await part(own, 0.3, ['--include-path-regex', named]),
      await part('what ends a token', 0.1, ['--include-path-regex', endings]),
      await part('upload host', 0.1, ['--include-path', uploads], service.upload),
    ].join('\n')
  } finally {
    await service.stop()
    await rm(folder, { recursive: true, force: true })
  }
}

/** The year 2100: the document's example of a time in the future. */
const soonest = 4_102_444_800

interface Form {
  minimum?: number
  maximum?: number
  pattern?: string
  examples?: number[]
}

/**
 * The document with times of expiry that stay in the future: any later time than now is valid,
 * which no schema can express. And with these values for members of bodies, by name.
 *
 * @throws when they are not where the narrowing expects them
 */
async function narrowedDocument(
  service: Standalone,
  folder: string,
  ids: Record<string, string>,
): Promise<string> {
  const text = await (await fetch(`${service.api}/openapi.json`)).text()
  const names = new Set<string>()
  const narrow = (name: string, value: { anyOf?: Form[] } | undefined) => {
    if (value !== undefined && Object.hasOwn(ids, name)) return { type: 'string', enum: [ids[name]] }
    const [first, ...others] = value?.anyOf ?? []
    if (first?.examples?.[0] !== soonest) return value
    names.add(name)
    const { minimum, maximum, examples: _, ...plain } = first
    // No minimum: a value just below one is valid as well, and would be tested as invalid.
    const future = [soonest, maximum]
    const narrowed = { enum: name === 'expireTime' ? [minimum, ...future] : future }
    // A text has no value just below the first one: this is all that is valid, but for an hour.
    const later = decimalForm({ minimum: Math.ceil(Date.now() / 1000) + 3_600, maximum: Number(maximum) })
    const pattern = name === 'expireTime' ? `^(-?0+|${later})$` : `^${later}$`
    const texts = others.map((form) => (form.pattern === undefined ? form : { ...form, pattern }))
    return { ...value, anyOf: [{ ...plain, ...narrowed }, ...texts] }
  }
  const file = join(folder, 'openapi.json')
  await writeFile(file, JSON.stringify(JSON.parse(text), narrow))
  if (names.size !== 2) throw new Error(`times of expiry found in ${[...names].join(', ') || 'no'} fields`)
  return file
}

/**
 * With an existing account and content, no valid call of these is refused except for the token:
 * wrong ones are sent, too.
 */
const neverRefused = ['getAccount', 'getContents', 'webContents', 'searchContents', 'createFolder']

/** The settings with values that no generator could guess: an account, and its root folder. */
async function namedIn(folder: string, { id, rootFolder }: AccountMade): Promise<string> {
  const file = join(folder, 'named.toml')
  const settings = `[parameters]
"path.accountId" = "${id}"
"path.contentId" = "${rootFolder}"
"query.contentId" = "${rootFolder}"

${await readFile(config, 'utf8')}
[[operations]]
include-operation-id = ${JSON.stringify(neverRefused)}
checks.positive_data_acceptance.expected-statuses = ["2xx", "401"]
`
  await writeFile(file, settings)
  return file
}

interface AccountMade {
  id: string
  token: string
  rootFolder: string
}

async function premiumAccount(service: Standalone): Promise<AccountMade> {
  const made = await fetch(`${service.api}/accounts`, { method: 'POST' })
  const { data } = (await made.json()) as { data: AccountMade }
  const set = await fetch(`${service.admin}/admin/accounts/${data.id}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ tier: 'premium' }),
  })
  if (!set.ok) throw new Error(`the operator's call answered ${set.status}`)
  return data
}

/** For bodies: the destination of contents, and a folder that is copied and moved there. */
async function idsOf(service: Standalone, { token, rootFolder }: AccountMade) {
  const made = await fetch(`${service.api}/contents/createFolder`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: JSON.stringify({ parentFolderId: rootFolder }),
  })
  const { data } = (await made.json()) as { data: { id: string } }
  return { parentFolderId: rootFolder, folderId: rootFolder, contentsId: data.id }
}

async function outputOf(program: string, args: string[], cwd: string) {
  const env = { ...process.env, SCHEMATHESIS_HOOKS: hooks }
  const child = spawn(program, args, { cwd, env, stdio: ['ignore', 'pipe', 'pipe'] })
  let output = ''
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk: Buffer) => {
      output += chunk.toString()
    })
  const [code] = (await once(child, 'close')) as [number | null]
  return { code, output }
}
