/** Commands over an own authority of certificates. They work on a directory, without a service. */
import { readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { dayMs } from '@holdfast/kernel'
import { Authority, AuthorityFault, type CertificateInfo, clusterNames, type Kind } from '@holdfast/trust'
import { parse } from 'yaml'
import { AdminError } from './admin-client.ts'
import { type Command, json, type Options, parseNumber, type Step, UsageFault } from './command.ts'

const authorityDays = '3650'
const hostDays = '365'
const renewWithinDays = '90'
/** The longest validity of a certificate. A longer one is a typing error. */
const daysMax = 36_500

export const certsCommands: readonly Command[] = [
  {
    words: 'certs init',
    usage: '<directory> [--name NAME] [--days N]',
    meaning: `Makes a certificate authority, valid for ${authorityDays} or N days. Keep the directory: its ca.key makes every other certificate, cassandra-ca.key those that nodes of Cassandra show each other.`,
    options: { name: 'string', days: 'string' },
    plan: (words, { name = 'Holdfast', days = authorityDays }) => [
      local(words, async (directory) => {
        const authority = await Authority.create(directory, { name: String(name), days: daysOf(days) })
        return json(certificateShown(await authority.ofAuthority()))
      }),
    ],
  },
  {
    words: 'certs issue',
    usage: '<directory> [<host> --names ADDRESS,…] [--deployment FILE] [--days N]',
    meaning: `Makes a key and a certificate for a host, or for every host of a deployment, in a folder of its name; valid for ${hostDays} or N days. With a deployment also for the public names of each proxy, unless a certificate of another authority is there.`,
    options: { names: 'string', deployment: 'string', days: 'string' },
    plan: ([directory, ...hosts], options) => [
      local(directory === undefined ? [] : [directory], async (path) => {
        const authority = await Authority.open(path)
        const days = daysOf(options.days ?? hostDays)
        const issued = []
        for (const { host, names, kinds, publicNames } of await hostsOf(hosts, options)) {
          for (const [kind, more] of kinds)
            issued.push(await authority.issue({ host, names: [...names, ...more] }, { days, kind }))
          if (publicNames === undefined) continue
          const made = await authority.issuePublic({ host, names: publicNames }, { days })
          if (made !== undefined) issued.push(made)
        }
        return json(issued.map(certificateShown))
      }),
    ],
  },
  {
    words: 'certs renew',
    usage: '<directory> [--within DAYS] [--days N]',
    meaning: `Makes new keys and certificates for hosts whose certificates end within ${renewWithinDays} or DAYS days.`,
    options: { within: 'string', days: 'string' },
    plan: (words, { within = renewWithinDays, days = hostDays }) => [
      local(words, async (directory) => {
        const authority = await Authority.open(directory)
        const renewed = await authority.renew({
          withinDays: parseNumber('within', within),
          days: daysOf(days),
        })
        return json(renewed.map(certificateShown))
      }),
    ],
  },
  {
    words: 'certs show',
    usage: '<directory>',
    meaning: 'Names, ages and days left of the authorities and of every certificate.',
    plan: (words) => [
      local(words, async (directory) => {
        const authority = await Authority.open(directory)
        const [ca, cassandra] = [await authority.ofAuthority(), await authority.ofSecond()]
        return json({
          authority: certificateShown(ca),
          ...(cassandra === undefined ? {} : { cassandraAuthority: certificateShown(cassandra) }),
          hosts: (await authority.issued()).map(certificateShown),
        })
      }),
    ],
  },
]

function local([directory, ...others]: string[], run: (directory: string) => Promise<string>): Step {
  if (directory === undefined) throw new UsageFault('the directory is missing')
  if (others.length > 0) throw new UsageFault(`unexpected argument: ${others.join(' ')}`)
  return {
    about: directory,
    async run() {
      try {
        return await run(resolve(directory))
      } catch (error) {
        if (error instanceof AuthorityFault) throw new AdminError(error.message)
        throw error
      }
    },
  }
}

function certificateShown({ name, names, issuedMs, expiresMs }: CertificateInfo) {
  const [issued, expires] = [issuedMs, expiresMs].map((ms) => new Date(ms).toISOString())
  return { name, names, issued, expires, daysLeft: Math.floor((expiresMs - Date.now()) / dayMs) }
}

function daysOf(text: string | boolean): number {
  const days = parseNumber('days', text)
  if (days < 1 || days > daysMax) throw new UsageFault(`--days takes 1 to ${daysMax}`)
  return days
}

interface CertificateOrder {
  host: string
  /** On the cluster's network. */
  names: string[]
  /** Each with the names that stand for parts of the cluster. */
  kinds: [kind: Exclude<Kind, 'public'>, names: string[]][]
  /** The public names of its proxy. Undefined: it has none. */
  publicNames: string[] | undefined
}

async function hostsOf(hosts: string[], { names, deployment }: Options): Promise<CertificateOrder[]> {
  if (typeof deployment === 'string') {
    if (hosts.length > 0 || names !== undefined)
      throw new UsageFault('--deployment names the hosts already: leave out hosts and --names')
    return hostsOfDeployment(deployment)
  }
  const [host, ...others] = hosts
  if (host === undefined) throw new UsageFault('a host or --deployment is missing')
  if (others.length > 0) throw new UsageFault(`unexpected argument: ${others.join(' ')}`)
  return [
    {
      host,
      names: typeof names === 'string' ? names.split(',') : [],
      kinds: [['node', []]],
      publicNames: undefined,
    },
  ]
}

/** Hosts with these roles alone call no other process of the cluster, and are not called. */
const rolesWithoutCalls = ['standalone', 'proxy', 'prometheus', 'alertmanager']

/** Only what names hosts is read; `npm run infra` checks the whole file. */
async function hostsOfDeployment(file: string): Promise<CertificateOrder[]> {
  const text = await readFile(file, 'utf8').catch((error: Error) => {
    throw new AuthorityFault(error.message)
  })
  const deployment: unknown = parse(text)
  const regions = listOf(deployment, 'regions')
  const all = regions.flatMap((region) => listOf(region, 'hosts'))
  const proxies = all.filter((host) => has(host, ['proxy']))
  // A single Caddy gets its certificates by itself.
  const alone = proxies.length === 1 && textOf(deployment, 'proxy') !== 'nginx'
  const wanted = regions.flatMap((region) =>
    listOf(region, 'hosts').map((host): CertificateOrder => {
      const [name, internal] = [textOf(host, 'name'), textOf(host, 'internal')]
      if (name === undefined || internal === undefined)
        throw new AuthorityFault(`${file} has a host without a name or an internal address`)
      const own = !listOf(host, 'roles').every((role) => rolesWithoutCalls.includes(roleOf(role)))
      // On a single host servers reach each other by loopback, without certificates.
      const observes = all.length > 1 && has(host, ['prometheus', 'alertmanager'])
      const proxied = all.length > 1 && has(host, ['proxy'])
      const serves = has(host, ['proxy']) && !alone
      const fronts = all.length > 1 && has(host, ['api', 'upload'])
      return {
        host: name,
        names: [internal],
        kinds: [
          ...(own ? [['node', fronts ? [clusterNames.frontend] : []] as const] : []),
          ...(proxied ? [['proxy', [clusterNames.proxy]] as const] : []),
          ...(observes ? [['prometheus', []] as const] : []),
          ...(has(host, ['cassandra']) ? [['internode', []] as const] : []),
        ].map(([kind, names]) => [kind, [...names]]),
        publicNames: serves ? publicNamesOf(deployment, region) : undefined,
      }
    }),
  )
  const some = wanted.filter(({ kinds, publicNames }) => kinds.length > 0 || publicNames !== undefined)
  if (some.length === 0) throw new AuthorityFault(`${file} names no host that needs a certificate`)
  return some
}

/** As the rendered proxies serve them. */
function publicNamesOf(deployment: unknown, region: unknown): string[] {
  const domain = textOf(deployment, 'domain') ?? ''
  const downloads = textOf(deployment, 'downloads') ?? domain
  const code = textOf(region, 'code') ?? ''
  return [
    domain,
    ...['api', 'upload', `upload-${code}`].map((name) => `${name}.${domain}`),
    ...['download', `download-${code}`].map((name) => `${name}.${downloads}`),
  ]
}

function has(host: unknown, roles: string[]): boolean {
  return listOf(host, 'roles').some((role) => roles.includes(roleOf(role)))
}

function textOf(value: unknown, field: string): string | undefined {
  const text = (value as Record<string, unknown> | null)?.[field]
  return typeof text === 'string' ? text : undefined
}

function listOf(value: unknown, field: string): unknown[] {
  const list = (value as Record<string, unknown> | null)?.[field]
  return Array.isArray(list) ? list : []
}

function roleOf(role: unknown): string {
  return typeof role === 'string' ? role : String((role as { role?: unknown } | null)?.role)
}
