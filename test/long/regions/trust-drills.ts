/**
 * The four steps of `infra/regions/NETWORK.md` ("A deployment without this TLS"), and "A new
 * authority" of `infra/OPERATING.md`.
 */
import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { DeployedRegions } from './deployed.ts'
import { status, until } from './drills.ts'
import { areIssued, areShown, reread } from './replacements.ts'
import { lineOf, underLoad } from './under-load.ts'

type Mode = 'off' | 'offered' | 'preferred'

/** Of frontends and admin hosts. */
export function tlsSettings(mode: Mode): Record<string, string> {
  return { HOLDFAST_FRONTEND_TLS: mode, HOLDFAST_ADMIN_TLS: mode }
}

/** The first step is the state before: both settings are `off`. */
export async function* stepsToTls(deployed: DeployedRegions): AsyncIterable<string> {
  await answers(deployed, { clear: true, tls: false })
  const step = async (mode: Mode | undefined, expected: Answers) => {
    const figures = await underLoad(deployed, async () => {
      if (mode === 'offered') await deployed.issue()
      deployed.edit((written) => {
        for (const name of Object.keys(tlsSettings('off'))) delete written.settings[name]
        if (mode !== undefined) Object.assign(written.settings, tlsSettings(mode))
      })
      await deployed.infra('up')
    })
    await answers(deployed, expected)
    await areScraped(deployed)
    return lineOf(`TLS ${mode ?? 'required'}`, figures)
  }
  yield await step('offered', { clear: true, tls: true })
  yield await step('preferred', { clear: true, tls: true })
  yield await step(undefined, { clear: false, tls: true })
}

interface Answers {
  clear: boolean
  tls: boolean
}

/** What each frontend and admin host answers. @throws Error that names those that do not */
async function answers(deployed: DeployedRegions, expected: Answers): Promise<void> {
  const [asker] = deployed.hosts
  const tls = '/etc/holdfast/tls'
  const code = "-s -o /dev/null -m 5 -w '%{http_code}'"
  const asks = deployed.hosts.flatMap(({ internal, processes }) =>
    processes.flatMap(({ name, role, ports }) => {
      const public_ = role === 'api' ? ports.api : role === 'upload' ? ports.upload : undefined
      return [
        [
          `${name} admin`,
          `${internal}:${ports.admin}/readyz`,
          `--cacert ${tls}/ca.pem https://${internal}:${ports.admin}/readyz`,
        ],
        ...(public_ === undefined
          ? []
          : [[`${name} public`, `${internal}:${public_}/health`, asProxy(`${internal}:${public_}`)]]),
      ] as [what: string, clear: string, byTls: string][]
    }),
  )
  const wrong: string[] = []
  for (const [what, clear, byTls] of asks) {
    const words = `curl ${code} http://${clear} || true; echo; curl ${code} ${byTls} || true`
    const [inClear, encrypted] = (await deployed.sh(asker?.name ?? '', words)).trim().split('\n')
    const as = (given: boolean) => (given ? 'answers' : 'does not answer')
    if ((inClear === '200') !== expected.clear)
      wrong.push(`${what} ${as(!expected.clear)} without TLS (${inClear})`)
    if ((encrypted === '200') !== expected.tls)
      wrong.push(`${what} ${as(!expected.tls)} by TLS (${encrypted})`)
  }
  if (wrong.length > 0) throw new Error(wrong.join(', '))
}

/** Words for `curl` on a host with a proxy: asks a frontend as the proxy does. */
export function asProxy(address: string, folder = '/etc/holdfast/tls'): string {
  const name = 'frontend.holdfast.internal'
  const own = `--cert ${folder}/proxy.pem --key ${folder}/proxy.key`
  return `--cacert /etc/holdfast/tls/ca.pem ${own} --connect-to ${name}:443:${address} https://${name}/health`
}

/** Resolves when each Prometheus reaches everything that it watches. */
async function areScraped(deployed: DeployedRegions): Promise<void> {
  for (const { name } of deployed.hosts.filter(({ roles }) => roles.includes('prometheus')))
    await until(`the Prometheus of ${name} reaches everything`, async () => {
      const query = "--data-urlencode 'query=up == 0' http://127.0.0.1:9090/api/v1/query"
      const { data } = JSON.parse(await deployed.sh(name, `curl -sf ${query}`)) as {
        data: { result: { metric: object }[] }
      }
      if (data.result.length > 0) throw new Error(JSON.stringify(data.result.map(({ metric }) => metric)))
      return true
    })
}

/** Both authorities: the deployment's, and that of Cassandra's nodes. */
const authorities = ['ca', 'cassandra-ca']
const earlier = '/root/earlier'

/** The users' programs trust both for the time of it: real ones trust a public authority. */
export async function* replaceAuthority(deployed: DeployedRegions): AsyncIterable<string> {
  const file = (...path: string[]) => join(deployed.layout.folder, 'ca', ...path)
  const [host] = deployed.hosts.filter(({ roles }) => roles.includes('proxy'))
  const api = host?.processes.find(({ role }) => role === 'api')
  if (host === undefined || api === undefined) throw new Error('no host has a proxy')
  await deployed.sh(host.name, `mkdir -p ${earlier} && cp /etc/holdfast/tls/proxy.* ${earlier}`)
  for (const name of authorities)
    for (const end of ['pem', 'key']) renameSync(file(`${name}.${end}`), file(`earlier-${name}.${end}`))
  await deployed.certs('init')
  const both = join(deployed.layout.folder, 'users-ca.pem')
  writeFileSync(both, `${readFileSync(file('earlier-ca.pem'))}${readFileSync(file('ca.pem'))}`)
  deployed.trusted = both
  const figures = await underLoad(deployed, () => changeAuthority(deployed, file))
  deployed.trusted = file('ca.pem')
  await areScraped(deployed)
  const code = async (folder?: string) => {
    const words = `curl -s -o /dev/null -w '%{http_code}' ${asProxy(`${host.internal}:${api.ports.api}`, folder)} || true`
    return deployed.sh(host.name, words)
  }
  const [now, before] = [await code(), await code(earlier)]
  if (now !== '200') throw new Error(`a frontend answers ${now} to its proxy`)
  if (before !== '000')
    throw new Error(`a frontend answers ${before} to the earlier certificate of its proxy`)
  yield lineOf('a new authority', figures)
}

async function changeAuthority(
  deployed: DeployedRegions,
  file: (...path: string[]) => string,
): Promise<void> {
  const begunS = Math.floor(Date.now() / 1_000)
  const trust = async (sign: '>' | '>>') => {
    for (const { name, roles } of deployed.hosts)
      for (const authority of authorities.slice(0, roles.includes('cassandra') ? 2 : 1)) {
        const text = readFileSync(file(`${authority}.pem`)).toString('base64')
        await deployed.sh(name, `echo ${text} | base64 -d ${sign} /etc/holdfast/tls/${authority}.pem`)
        // `up` in namespaces copies the folders to the hosts.
        if (sign === '>')
          writeFileSync(file(name, `${authority}.pem`), readFileSync(file(`${authority}.pem`)))
      }
    await reread(deployed)
  }
  await trust('>>')
  for (const { name } of deployed.hosts)
    for (const end of ['pem', 'key']) rmSync(file(name, `public.${end}`), { force: true })
  await deployed.issue()
  await deployed.infra('up')
  await reread(deployed)
  await areIssued(deployed, begunS)
  await areShown(deployed, begunS)
  for (const name of authorities) for (const end of ['pem', 'key']) rmSync(file(`earlier-${name}.${end}`))
  await trust('>')
  for (const { code } of deployed.regions)
    await until(`${code} is served`, async () => {
      await status(deployed, code)
      return true
    })
}
