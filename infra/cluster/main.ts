/**
 * A cluster of one to eight regions on this machine; `usage` below has the options.
 *
 * Everything is in HOLDFAST_DATA_DIR (default ./data/cluster); `cluster.json` there lists the
 * processes. All other HOLDFAST_ settings go to every process.
 */
import { spawn } from 'node:child_process'
import { existsSync, mkdirSync, openSync, realpathSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { exitCodes, ignoreStdioErrors, StartFault } from '@holdfast/bootstrap'
import { SettingsFault } from '@holdfast/config'
import { commandLine } from '../command-line.ts'
import { endOf } from '../servers/server.ts'
import { cassandraJars, java, natsServer } from '../servers/tools.ts'
import { NotReached, sendCommand, serveCommands, socketOf } from './control.ts'
import { gone, holderOf, holdOf, recordHolder } from './hold.ts'
import { endLeftovers } from './leftovers.ts'
import { planOf } from './plan.ts'
import { readPlan, writePlan } from './plan-file.ts'
import type { LocalPlan } from './planned-processes.ts'
import { checkProcesses, givenSettings } from './settings.ts'
import { Supervisor } from './supervisor.ts'

const usage = `npm run cluster                          runs it until SIGTERM or Ctrl-C
npm run cluster -- --detach              returns when it is ready
npm run cluster -- --stop                ends it
npm run cluster -- --regions <n>         how many regions it has, 1 to 8 (2); data that exists gets further ones
npm run cluster -- --restart <process>   starts a process again, after it was killed for instance
npm run cluster -- --cut <from>:<to>     holds back what goes from one region to another; --join ends that
npm run cluster -- --delay <ms>          how long everything takes from one region to another (20)`

ignoreStdioErrors()
const options = optionsOf()
const env = process.env
const dataDir = resolve(env.HOLDFAST_DATA_DIR || './data/cluster')

try {
  if (options.stop) await stopRunning()
  else if (options.restart !== undefined) await sendCommand(dataDir, { do: 'restart', name: options.restart })
  else if (options.cut !== undefined)
    await sendCommand(dataDir, { do: 'link', ...wayOf(options.cut), cut: true })
  else if (options.join !== undefined)
    await sendCommand(dataDir, { do: 'link', ...wayOf(options.join), cut: false })
  else if (options.detach) await detach()
  else await run()
} catch (error) {
  console.error(`cluster: ${(error as Error).message}`)
  process.exitCode ??=
    error instanceof StartFault || error instanceof SettingsFault ? exitCodes[error.code] : 1
}
// An interrupted start may still wait for something.
process.exit()

/** Ends the program on invalid ones. */
function optionsOf() {
  const { values, refuse } = commandLine('cluster', usage, {
    detach: { type: 'boolean', default: false },
    stop: { type: 'boolean', default: false },
    restart: { type: 'string' },
    cut: { type: 'string' },
    join: { type: 'string' },
    delay: { type: 'string', default: '20' },
    regions: { type: 'string' },
  })
  if (!/^\d{1,6}$/.test(values.delay)) refuse(`--delay is "${values.delay}", but must be milliseconds`)
  if (values.regions !== undefined && !/^[1-8]$/.test(values.regions))
    refuse(`--regions is "${values.regions}", but must be a number from 1 to 8`)
  const regions = values.regions === undefined ? undefined : Number(values.regions)
  return { ...values, delayMs: Number(values.delay), regions }
}

async function run(): Promise<void> {
  const given = givenSettings(env)
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
    await supervise(place, given)
  } finally {
    hold.close()
  }
}

/** Runs the cluster until a command stops it. @param place the data directory, held */
async function supervise(place: string, given: Record<string, string>): Promise<void> {
  // These two calls block for minutes if they download something. During that time a signal ends
  // this program at once, as it does by default.
  java()
  natsServer()
  cassandraJars()
  const left = await endLeftovers(place)
  if (left.length > 0) console.error(`Ended what an earlier start left behind: ${left.join(', ')}`)
  const plan = await planOf(place, given, { regions: options.regions, earlier: readPlan(place) })
  checkProcesses(plan, given)
  writePlan(place, plan)
  const supervisor = new Supervisor({
    plan,
    dataDir: place,
    env: given,
    delayMs: options.delayMs,
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
    await Promise.race([supervisor.start().then(() => ready(plan)), ended.promise])
    await ended.promise
  } catch (error) {
    if (stopping === undefined) throw error
  } finally {
    await stop()
    await new Promise((resolve) => control.close(resolve))
  }
}

function ready(plan: LocalPlan): void {
  console.log(readyText(plan))
  // Only this distinguishes a detached one from its parent.
  process.send?.('ready')
  if (process.connected) process.disconnect()
}

/**
 * Resolves when the cluster, or the rest of an earlier one, has ended. @throws Error when nothing
 * runs
 */
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
    await sendCommand(dataDir, { do: 'stop' })
  } catch (error) {
    if (!(error instanceof NotReached)) throw error
    // It accepts no commands yet, or its socket was removed.
    process.kill(holder.pid, 'SIGTERM')
  }
  await gone(holder)
}

/** The same program again, detached; this one ends when that one is ready. */
async function detach(): Promise<void> {
  givenSettings(env)
  const logs = join(dataDir, 'logs')
  mkdirSync(logs, { recursive: true })
  const path = join(logs, 'cluster.log')
  const log = openSync(path, 'a')
  const child = spawn(
    process.execPath,
    [
      fileURLToPath(import.meta.url),
      ...['--delay', String(options.delayMs)],
      ...(options.regions === undefined ? [] : ['--regions', String(options.regions)]),
    ],
    { detached: true, stdio: ['ignore', log, log, 'ipc'] },
  )
  await new Promise<void>((resolve, reject) => {
    child.once('message', () => resolve())
    child.once('exit', (code) => {
      process.exitCode = code ?? 1
      reject(new Error(`it ended at its start (${code}); ${endOf(path)}`))
    })
  })
  child.removeAllListeners()
  if (child.connected) child.disconnect()
  child.unref()
  const plan = readPlan(dataDir)
  if (plan !== undefined) console.log(readyText(plan))
}

/** @param text `<from>:<to>`, codes of regions. */
function wayOf(text: string): { from: string; to: string } {
  const [from = '', to = ''] = text.split(':')
  return { from, to }
}

function readyText(plan: LocalPlan): string {
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
