/**
 * A cluster of two regions on this machine:
 *
 *   npm run cluster                          runs it until SIGTERM or Ctrl-C
 *   npm run cluster -- --detach              returns when it is ready
 *   npm run cluster -- --stop                ends it
 *   npm run cluster -- --restart <process>   starts a process again, after it was killed for instance
 *   npm run cluster -- --cut <from>:<to>     holds back what goes from one region to another; --join lets it go on
 *   npm run cluster -- --delay <ms>          how long everything takes from one region to another (20)
 *
 * Everything is in HOLDFAST_DATA_DIR (default ./data/cluster); `cluster.json` there says what runs where. All other HOLDFAST_ settings go to
 * every process.
 */
import { spawn } from 'node:child_process'
import { existsSync, mkdirSync, openSync, realpathSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { exitCodes, StartFault } from '@holdfast/process'
import { endOf } from '../servers/server.ts'
import { cassandraJars, java, natsServer } from '../servers/tools.ts'
import { NotReached, serveCommands, socketOf, tell } from './control.ts'
import { gone, holderOf, holdOf, recordHolder } from './hold.ts'
import { endLeftovers } from './leftovers.ts'
import { type Plan, planOf } from './plan.ts'
import { Supervisor } from './supervisor.ts'

const { values: options } = parseArgs({
  options: {
    detach: { type: 'boolean', default: false },
    stop: { type: 'boolean', default: false },
    restart: { type: 'string' },
    cut: { type: 'string' },
    join: { type: 'string' },
    delay: { type: 'string', default: '20' },
  },
})
const env = process.env
const dataDir = resolve(env.HOLDFAST_DATA_DIR || './data/cluster')

try {
  if (options.stop) await stopRunning()
  else if (options.restart !== undefined) await tell(dataDir, { do: 'restart', name: options.restart })
  else if (options.cut !== undefined) await tell(dataDir, { do: 'link', ...wayOf(options.cut), cut: true })
  else if (options.join !== undefined) await tell(dataDir, { do: 'link', ...wayOf(options.join), cut: false })
  else if (options.detach) await detach()
  else await run()
} catch (error) {
  console.error(`cluster: ${(error as Error).message}`)
  process.exitCode = error instanceof StartFault ? exitCodes[error.code] : 1
}
// What was being started when it was to stop may wait for something still.
process.exit()

async function run(): Promise<void> {
  mkdirSync(dataDir, { recursive: true, mode: 0o700 })
  const place = realpathSync(dataDir)
  const hold = holdOf(place)
  if (hold === undefined)
    throw new StartFault(
      'DATA_LOCKED',
      `a cluster runs in ${dataDir} already: npm run cluster -- --stop ends it`,
    )
  try {
    recordHolder(place, socketOf(place))
    await supervise(place)
  } finally {
    hold.close()
  }
}

/** Runs the cluster until it is told to stop. @param place the data directory, held */
async function supervise(place: string): Promise<void> {
  const given: Record<string, string> = {}
  for (const [name, value] of Object.entries(env))
    if (name.startsWith('HOLDFAST_') && value) given[name] = value
  // They block for minutes where something is to be fetched: until then a signal ends this program as any other.
  java()
  natsServer()
  cassandraJars()
  const plan = await planOf(place, given)
  const supervisor = new Supervisor({
    plan,
    dataDir: place,
    env: given,
    delayMs: Number(options.delay),
    say: console.error,
  })
  let stopping: Promise<void> | undefined
  const stop = () => {
    stopping ??= supervisor.stop()
    return stopping
  }
  const ended = Promise.withResolvers<void>()
  const control = await serveCommands(socketOf(place), async (command) => {
    if (command.do === 'restart') await supervisor.restart(command.name)
    if (command.do === 'link') supervisor.link(command)
    if (command.do !== 'stop') return
    await stop()
    ended.resolve()
  })
  for (const signal of ['SIGTERM', 'SIGINT'] as const)
    process.on(signal, () => {
      if (stopping === undefined) console.error('The cluster is stopping.')
      stop().then(ended.resolve, ended.reject)
    })
  try {
    const left = await endLeftovers(place)
    if (left.length > 0) console.error(`Ended what an earlier start left behind: ${left.join(', ')}`)
    await Promise.race([supervisor.start().then(() => ready(plan)), ended.promise])
    await ended.promise
  } catch (error) {
    if (stopping === undefined) throw error
  } finally {
    await stop()
    await new Promise((resolve) => control.close(resolve))
  }
}

function ready(plan: Plan): void {
  console.log(readyText(plan))
  // A detached one is told apart from its parent by this alone.
  process.send?.('ready')
  if (process.connected) process.disconnect()
}

/** Resolves when the cluster, or what an earlier one left behind, is no more. @throws Error when nothing runs */
async function stopRunning(): Promise<void> {
  const hold = existsSync(join(dataDir, 'supervisor.json')) ? holdOf(dataDir) : undefined
  if (hold !== undefined) {
    const left = await endLeftovers(dataDir)
    hold.close()
    if (left.length === 0) throw new Error(`no cluster runs in ${dataDir}`)
    return
  }
  const holder = holderOf(dataDir)
  if (holder === undefined) throw new Error(`no cluster runs in ${dataDir}`)
  try {
    await tell(dataDir, { do: 'stop' })
  } catch (error) {
    if (!(error instanceof NotReached)) throw error
    // It takes no commands yet, or its socket was cleaned away.
    process.kill(holder.pid, 'SIGTERM')
  }
  await gone(holder)
}

/** The same program again, on its own; this one ends when that one is ready. */
async function detach(): Promise<void> {
  const logs = join(dataDir, 'logs')
  mkdirSync(logs, { recursive: true })
  const path = join(logs, 'cluster.log')
  const log = openSync(path, 'a')
  const child = spawn(process.execPath, [fileURLToPath(import.meta.url), '--delay', options.delay], {
    detached: true,
    stdio: ['ignore', log, log, 'ipc'],
  })
  await new Promise<void>((resolve, reject) => {
    child.once('message', () => resolve())
    child.once('exit', (code) => reject(new Error(`it ended at its start (${code}); ${endOf(path)}`)))
  })
  child.removeAllListeners()
  if (child.connected) child.disconnect()
  child.unref()
  console.log(readyText(await planOf(dataDir, {})))
}

/** @param text `<from>:<to>`, codes of regions. */
function wayOf(text: string): { from: string; to: string } {
  const [from = '', to = ''] = text.split(':')
  return { from, to }
}

function readyText(plan: Plan): string {
  const [first] = plan.regions
  return [
    ...plan.regions.map(
      ({ code, api, upload, download, admin }) =>
        `${code}  API and pages: ${api}  uploads: ${upload}  downloads: ${download}  admin: ${admin}`,
    ),
    `The cluster is ready. What runs where: ${join(dataDir, 'cluster.json')}  logs: ${join(dataDir, 'logs')}`,
    `Operator: npm run -s ctl -- status --admin ${first?.admin}   Stop: npm run cluster -- --stop`,
  ].join('\n')
}
