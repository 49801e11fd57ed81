/**
 * `npm run infra:check`: renders every example of `infra/regions` and lets the programs that read
 * the files in production check them. Ends with 1 when one refuses a file or is missing; for a
 * missing one it says what to install. `-- --only <text>` takes the examples or programs whose name
 * has the text.
 */
import { spawn } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { commandLine, headOf } from '../command-line.ts'
import { readDeployment } from '../regions/deployment.ts'
import { render } from '../regions/render.ts'
import { layOut, makeSecrets } from './sandbox.ts'
import { type Check, validators } from './validators.ts'

const { values: options } = commandLine('infra:check', headOf(import.meta.filename), {
  only: { type: 'string', default: '' },
})
const examples = join(import.meta.dirname, '../regions')
/** Longer than any of them takes on a slow machine. */
const timeoutMs = 120_000

const folder = mkdtempSync(join(tmpdir(), 'infra-check-'))
try {
  makeSecrets(join(folder, 'etc'))
  let failed = 0
  for (const file of readdirSync(examples).filter((name) => name.endsWith('.yaml')))
    failed += await checkExample(file)
  if (failed > 0) process.exitCode = 1
} finally {
  rmSync(folder, { recursive: true, force: true })
}

/** @returns how many programs refuse files of the example or are missing. */
async function checkExample(file: string): Promise<number> {
  const example = basename(file, '.yaml')
  const rendered = render(readDeployment(readFileSync(join(examples, file), 'utf8'), file))
  const sandbox = layOut(rendered, join(folder, example), join(folder, 'etc'))
  let failed = 0
  for (const { name, checks } of validators) {
    if (!`${example} ${name}`.includes(options.only)) continue
    try {
      const all = await checks(sandbox)
      for (const check of all) await run(check)
      if (all.length > 0) console.log(`${example}: ${name} accepts ${all.length}`)
    } catch (error) {
      failed++
      console.error(`${example}: ${name}: ${(error as Error).message.replaceAll(`${folder}/`, '')}`)
    }
  }
  return failed
}

/** @throws Error with what the program says about the files. */
async function run({ what, tool, args, cwd, bad }: Check): Promise<void> {
  const child = spawn(tool.path, args, {
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: timeoutMs,
    // Caddy keeps its state there.
    env: { ...tool.env, HOME: folder, XDG_DATA_HOME: folder, XDG_CONFIG_HOME: folder },
    ...(cwd === undefined ? {} : { cwd }),
  })
  const said: Buffer[] = []
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (bytes: Buffer) => said.push(bytes))
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once('error', reject)
    child.once('close', resolve)
  })
  const text = Buffer.concat(said).toString()
  if (code === 0 && !bad?.test(text)) return
  throw new Error(`${what} is refused (${code})\n${text.split('\n').slice(-20).join('\n')}`)
}
