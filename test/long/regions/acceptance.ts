/** The acceptance suite beside the users of each region, by the public names and over TLS. */
import { clientNetwork } from '../../../infra/namespaces/layout.ts'
import type { DeployedRegions } from './deployed.ts'

/** A machine with few cores runs all hosts and the suite. */
const parallel = '6'

/** @returns a line of figures. @throws Error with the cases that failed */
export async function acceptFrom(deployed: DeployedRegions, at: number): Promise<string> {
  const region = deployed.regions[at]
  if (region === undefined) throw new Error(`there is no region ${at}`)
  const { code, names } = region
  const startedMs = performance.now()
  const said = await deployed.atUsersOf(
    code,
    'test/acceptance/run.ts',
    ...['--api', `https://${names.api}`, '--web', `https://${names.web}`],
    ...['--upload', `https://${names.upload}`, '--download', `https://${names.download}`],
    ...['--admin', deployed.adminsOf(code).join(',')],
    ...['--admin-token', `${deployed.layout.folder}/secrets/admin-token`],
    ...[
      '--proxied',
      '--rate-limited',
      '--parallel',
      parallel,
      '--network',
      clientNetwork(at),
      '--outbox',
      deployed.outboxes().join(','),
    ],
  )
  const seconds = Math.round((performance.now() - startedMs) / 1_000)
  const last = said.out.trim().split('\n').at(-1) ?? ''
  if (said.code !== 0) {
    const failed = said.out.split('\n').filter((line) => /^NOT OK|^no |^not in|^ {9}/.test(line))
    throw new Error(`from ${code}: ${last}\n${failed.join('\n')}\n${said.err}`)
  }
  return `${last}, in ${seconds} s`
}
