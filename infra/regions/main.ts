/** `npm run -s infra -- <verb> <file>`: a deployment from one file. `usage` has the verbs. */
import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { exitCodes } from '@holdfast/bootstrap'
import type { Layout } from '../namespaces/layout.ts'
import { cutPower, removeAll, startHosts, viaOf } from '../namespaces/namespaces.ts'
import { type Deployment, readDeployment } from './deployment.ts'
import { fillingScripts, joiningOf, regionsScript } from './growth.ts'
import {
  askAll,
  changedOn,
  digestScript,
  downScript,
  HostFault,
  type HostWork,
  joiningNodes,
  nodeScript,
  runOn,
  statusScript,
  upScript,
  workOf,
} from './hosts.ts'
import { loginsHost, loginsRepairs, loginsScript } from './logins.ts'
import { differences, writeOutput } from './output.ts'
import { planOf } from './plan.ts'
import { render } from './render.ts'
import { DeploymentFault } from './source.ts'
import { warningsOf } from './warnings.ts'

/** A host without power is named after 5 s; one that goes silent meanwhile, after 20 s. */
const ssh =
  'ssh -o BatchMode=yes -o ConnectTimeout=5 -o ServerAliveInterval=5 -o ServerAliveCountMax=3 root@{address} sh'

const usage = `npm run -s infra -- render <file> --out <folder>  writes all files of the deployment
npm run -s infra -- diff <file> --out <folder>    what render would change in the folder; 1 if anything
npm run -s infra -- diff <file>                   what up would change on the hosts; 1 if anything
npm run -s infra -- up <file>                     stops and removes what the file no longer names, lays the files over the hosts and starts
                                                  what they run
npm run -s infra -- down <file>                   stops what the hosts run; files and data stay
npm run -s infra -- status <file>                 what runs on the hosts; 1 if anything does not

--only <name>           this region or this host alone
--replace               up --only <host>: its empty Cassandra takes the place of the node that had its address. Repeat it
                        until it succeeds; the next up without it ends that
--via <command>         how a script reaches a host (${ssh})
--namespaces <folder>   hosts are network namespaces of this machine: up makes those that do not run, with their disks in
                        the folder; down takes all of it away, down --only cuts their power and leaves disks`

const verbs = ['render', 'diff', 'up', 'down', 'status'] as const
const { verb, file, out, only, replace, namespaces, ...words } = wordsOf()

try {
  const deployment = readDeployment(readFileSync(file, 'utf8'), file)
  const layout: Layout | undefined =
    namespaces === undefined ? undefined : { folder: resolve(namespaces), plan: planOf(deployment) }
  const via = layout === undefined ? words.via : viaOf(layout)
  const all = workOf(deployment, { replaced: replace ? only : undefined })
  const chosen = all.filter(({ host }) => only === undefined || host.name === only || host.region === only)
  if (chosen.length === 0) throw new Error(`${file} has no region and no host ${only}`)
  if (replace) checkReplacement(deployment)
  if (verb === 'render') {
    for (const warning of warningsOf(planOf(deployment))) console.error(`${file}: ${warning}`)
    writeOutput(render(deployment), out ?? refuse('render needs --out <folder>'))
  } else if (verb === 'diff') {
    const found = out === undefined ? await diffOf(chosen, via) : differences(render(deployment), out)
    for (const { path, state } of found) console.log(`${state} ${path}`)
    if (found.length > 0) process.exitCode = 1
  } else if (verb === 'up') {
    if (layout !== undefined) await startHosts(layout, { file, wanted: chosen.map(({ host }) => host) })
    await up(deployment, { chosen, joining: await askNodes({ chosen, all }, via) }, via)
  } else if (verb === 'down') {
    if (layout !== undefined && only !== undefined)
      await cutPower(
        layout,
        chosen.map(({ host }) => host),
      )
    else if (layout !== undefined) await removeAll(layout)
    else await down(chosen, via)
  } else await status(chosen, via)
} catch (error) {
  console.error((error as Error).message)
  process.exitCode = error instanceof DeploymentFault ? exitCodes.SETTINGS : 1
}

/** @throws Error when no node of Cassandra can be replaced so */
function checkReplacement({ regions }: Deployment): void {
  if (verb !== 'up') refuse('--replace is for up')
  const nodes = regions
    .flatMap(({ hosts }) => hosts)
    .filter(({ roles }) => roles.some(({ role }) => role === 'cassandra'))
  if (!nodes.some(({ name }) => name === only))
    throw new Error('--replace needs --only with a host of Cassandra')
  if (nodes.length === 1) throw new Error(`${only} has the only Cassandra: restore a backup instead`)
}

/**
 * Servers of all hosts first: processes need those of other hosts, too. The processes of a region
 * that was added come last: those of the others know it then, and its Cassandra has their rows.
 */
async function up(
  deployment: Deployment,
  { chosen, joining: nodes }: { chosen: readonly HostWork[]; joining: ReadonlySet<string> },
  via: string,
): Promise<void> {
  const on = async (work: HostWork, script: string) => {
    const lines = (await runOn(work, via, script)).split('\n').filter((line) => line !== '')
    for (const line of lines) console.log(`${work.host.name}: ${line}`)
    return lines
  }
  for (const work of chosen) await on(work, upScript(work, 'servers', { joins: nodes.has(work.host.name) }))
  const at = loginsHost(chosen)
  if (at === undefined) {
    for (const work of chosen) await on(work, upScript(work, 'processes'))
    return
  }
  const more = await on(at, loginsScript(deployment, at, 'replicate'))
  if (more.length > 0)
    for (const { work, script } of loginsRepairs(deployment, chosen)) await on(work, script)
  await on(at, loginsScript(deployment, at, 'make'))
  const joining = joiningOf(await on(at, regionsScript(deployment)))
  const joins = ({ host }: HostWork) => joining.some(({ region }) => region === host.region)
  for (const work of chosen) if (!joins(work)) await on(work, upScript(work, 'processes'))
  if (joining.length === 0) return
  if (only !== undefined)
    throw new Error(
      `${joining.map(({ region }) => region).join()} has not joined the others: up without --only ends that`,
    )
  for (const one of joining) {
    for (const { work, script } of fillingScripts(one, { replicas: deployment.replicas, all: chosen }))
      await on(work, script)
    await on(at, regionsScript(deployment, one.region))
    for (const work of chosen)
      if (work.host.region === one.region) await on(work, upScript(work, 'processes'))
  }
}

/** Which hosts have a node of Cassandra that has to join the others. */
async function askNodes(
  { chosen, all }: { chosen: readonly HostWork[]; all: readonly HostWork[] },
  via: string,
): Promise<Set<string>> {
  const regions = chosen.filter(({ node }) => node?.joining !== undefined).map(({ host }) => host.region)
  const asked = all.filter(({ host, node }) => node !== undefined && regions.includes(host.region))
  const answers = new Map<string, string | HostFault>()
  for await (const { work, answer } of askAll(asked, via, nodeScript)) answers.set(work.host.name, answer)
  return joiningNodes({ chosen, all }, answers)
}

/** Names hosts that failed, after all others were stopped. */
async function down(chosen: readonly HostWork[], via: string): Promise<void> {
  for (const work of chosen)
    try {
      await runOn(work, via, downScript(work))
    } catch (error) {
      if (!(error instanceof HostFault)) throw error
      console.error(error.message)
      process.exitCode = 1
    }
}

/** Names hosts without an answer on the standard error. */
async function diffOf(chosen: readonly HostWork[], via: string) {
  const found: { path: string; state: string }[] = []
  for await (const { work, answer } of askAll(chosen, via, digestScript)) {
    const { name } = work.host
    if (answer instanceof HostFault) {
      console.error(`${name} gives no answer: ${answer.reason}`)
      process.exitCode = 1
    } else
      found.push(...changedOn(work, answer).map(({ path, state }) => ({ state, path: `${name}:${path}` })))
  }
  return found
}

async function status(chosen: readonly HostWork[], via: string): Promise<void> {
  for await (const { work, answer } of askAll(chosen, via, statusScript)) {
    const { region, name } = work.host
    const lines = answer instanceof HostFault ? `gives no answer: ${answer.reason}` : answer
    for (const line of lines.trim().split('\n')) {
      console.log(`${region} ${name} ${line}`)
      if (!line.endsWith(' active')) process.exitCode = 1
    }
  }
}

/** Ends the program on invalid ones. */
function wordsOf() {
  try {
    const { values, positionals } = parseArgs({
      allowPositionals: true,
      options: {
        out: { type: 'string' },
        only: { type: 'string' },
        replace: { type: 'boolean', default: false },
        namespaces: { type: 'string' },
        via: { type: 'string', default: ssh },
        help: { type: 'boolean', short: 'h' },
      },
    })
    if (values.help) {
      console.log(usage)
      process.exit()
    }
    const [given, file, ...more] = positionals
    const verb = verbs.find((one) => one === given)
    if (verb === undefined || file === undefined || more.length > 0)
      return refuse('name a verb and the file of a deployment')
    return { ...values, verb, file }
  } catch (error) {
    return refuse((error as Error).message)
  }
}

function refuse(why: string): never {
  console.error(`infra: ${why}\n\n${usage}`)
  process.exit(2)
}
