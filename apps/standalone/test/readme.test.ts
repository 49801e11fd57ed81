import { execFile } from 'node:child_process'
import { copyFileSync, readFileSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { clusterSettings, settings } from '@holdfast/process'
import t from 'tap'
import { dataDir, startProcess } from './run.ts'

const run = promisify(execFile)
const repository = fileURLToPath(new URL('../../../', import.meta.url))
const readme = readFileSync(join(repository, 'README.md'), 'utf8')

t.test('the table of settings in the README is the schema', async (t) => {
  const rows = Object.entries({ ...settings, ...clusterSettings }).map(([name, { fallback, meaning }]) => {
    return `| \`${name}\` | ${fallback === '' ? '' : `\`${fallback}\``} | ${meaning.replaceAll('|', '\\|')} |`
  })
  const table = readme.split('\n').filter((line) => line.startsWith('| `HOLDFAST_'))
  t.same(table.map(unpadded), rows.map(unpadded))
})

t.test('the commands of the README run as printed, one after the other', async (t) => {
  const service = await startProcess(dataDir(t))
  t.teardown(async () => {
    service.process.kill()
    await service.ended
  })
  const { api, upload, admin } = service
  const script = [...readme.matchAll(/^```bash\n(.*?)^```$/gms)]
    .map(([, commands]) => commands)
    .join('')
    .replaceAll('http://127.0.0.1:8080', api)
    .replaceAll('http://127.0.0.1:8081', upload)
    .replaceAll('http://127.0.0.1:8090', admin)
  const { stdout } = await run('bash', ['-euo', 'pipefail', '-c', script], {
    cwd: copyOfRepository(t),
    env: { ...process.env, HOLDFAST_ADMIN_PORT: new URL(admin).port },
  })
  const answers = [...stdout.matchAll(/\{"status":"([^"]+)"/g)].map(([, status]) => status)
  t.ok(answers.length >= 10)
  t.same([...new Set(answers)], ['ok'], 'no command was refused')
  t.match(stdout, 'No errors detected in compressed data')
  t.match(stdout, 'holdfast_store_blobs')
})

t.test('the map names what is there', async (t) => {
  const { stdout } = await run('git', ['ls-files'], { cwd: repository })
  const folders = new Set(stdout.split('\n').map((path) => path.split('/').slice(0, 2).join('/')))
  for (const [name] of readme.matchAll(/\b(?:apps|libs)\/[a-z-]+/g)) t.ok(folders.has(name), name)
})

/** The formatter pads the columns. */
function unpadded(row: string): string {
  return row.replace(/ +/g, ' ')
}

/** What the commands read, without anything of theirs being written into the repository. */
function copyOfRepository(t: { teardown(undo: () => unknown): void }): string {
  const copy = dataDir(t)
  for (const name of ['README.md', 'LICENSE', 'package.json'])
    copyFileSync(join(repository, name), join(copy, name))
  for (const name of ['package-lock.json', 'node_modules', 'apps', 'libs', 'infra'])
    symlinkSync(join(repository, name), join(copy, name))
  return copy
}
