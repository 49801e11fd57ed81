import { execFile } from 'node:child_process'
import { copyFileSync, readFileSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import t from 'tap'
import { dataDir, startProcess } from './run.ts'

const run = promisify(execFile)
const repository = fileURLToPath(new URL('../../../', import.meta.url))
const read = (path: string) => readFileSync(join(repository, path), 'utf8')

/** Documents whose `bash` blocks a person copies into a shell, each from its first to its last. */
const guides = [
  { path: 'README.md', shows: ['No errors detected in compressed data'] },
  { path: 'apps/api/GUIDE.md', shows: ['No errors detected in compressed data'] },
  { path: 'infra/OPERATING.md', shows: ['holdfast_store_blobs', '"outcome": "whole"'] },
]

t.test('the commands of the documents run as printed, one after the other', async (t) => {
  const service = await startProcess(dataDir(t))
  t.teardown(async () => {
    service.process.kill()
    await service.ended
  })
  const { api, upload, admin } = service
  for (const { path, shows } of guides)
    await t.test(path, async (t) => {
      const script = [...read(path).matchAll(/^```bash\n(.*?)^```$/gms)]
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
      t.ok(answers.length > 0)
      t.same([...new Set(answers)], ['ok'], 'no command was refused')
      for (const text of shows) t.match(stdout, text)
    })
})

t.test('no other document has bash blocks, which no test would run', async (t) => {
  const { stdout } = await run('git', ['ls-files', '*.md'], { cwd: repository })
  const others = stdout
    .split('\n')
    .filter((path) => path !== '' && !guides.some((guide) => guide.path === path))
  t.same(
    others.filter((path) => read(path).includes('```bash')),
    [],
  )
})

t.test('the map names what is there', async (t) => {
  const { stdout } = await run('git', ['ls-files'], { cwd: repository })
  const folders = new Set(stdout.split('\n').map((path) => path.split('/').slice(0, 2).join('/')))
  for (const [name] of read('README.md').matchAll(/\b(?:apps|libs)\/[a-z-]+/g)) t.ok(folders.has(name), name)
})

/** The files that the commands read, so that nothing is written into the repository. */
function copyOfRepository(t: { teardown(undo: () => unknown): void }): string {
  const copy = dataDir(t)
  for (const name of ['README.md', 'LICENSE', 'package.json'])
    copyFileSync(join(repository, name), join(copy, name))
  for (const name of ['package-lock.json', 'node_modules', 'apps', 'libs', 'infra'])
    symlinkSync(join(repository, name), join(copy, name))
  return copy
}
