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
import { mkdirSync, openSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { endOf } from '../servers/server.ts'
import { cassandraJars, java, natsServer } from '../servers/tools.ts'
import { serveCommands, tell } from './control.ts'
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
  process.exitCode = 1
}

async function run(): Promise<void> {
  mkdirSync(dataDir, { recursive: true, mode: 0o700 })
  const given: Record<string, string> = {}
  for (const [name, value] of Object.entries(env))
    if (name.startsWith('HOLDFAST_') && value) given[name] = value
  java()
  natsServer()
  cassandraJars()
  const plan = await planOf(dataDir, given)
  const supervisor = new Supervisor({
    plan,
    dataDir,
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
  const control = await serveCommands(dataDir, async (command) => {
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
  const left = await endLeftovers(dataDir)
  if (left.length > 0) console.error(`Ended what an earlier start left behind: ${left.join(', ')}`)
  try {
    await supervisor.start()
    console.log(readyText(plan))
    // A detached one is told apart from its parent by this alone.
    process.send?.('ready')
    if (process.connected) process.disconnect()
    await ended.promise
  } catch (error) {
    if (stopping === undefined) throw error
    await stopping
  } finally {
    await stop()
    control.close()
  }
}

/** @throws Error when nothing runs */
async function stopRunning(): Promise<void> {
  try {
    await tell(dataDir, { do: 'stop' })
  } catch (error) {
    if ((await endLeftovers(dataDir)).length === 0) throw error
  }
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
