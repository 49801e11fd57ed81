import { execFile, execFileSync } from 'node:child_process'
import { copyFileSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import t from 'tap'
import { dataDir, startProcess } from './run.ts'

const execute = promisify(execFile)
const repository = fileURLToPath(new URL('../../../', import.meta.url))
const read = (path: string) => readFileSync(join(repository, path), 'utf8')

/** Documents whose `bash` blocks a person copies into a shell, all blocks in their order. */
const guides = [
  { path: 'README.md', shows: ['No errors detected in compressed data'] },
  { path: 'apps/api/GUIDE.md', shows: ['No errors detected in compressed data'] },
  { path: 'infra/OPERATING.md', shows: ['holdfast_store_blobs', '"outcome": "whole"'] },
]

const pages = execFileSync('git', ['ls-files', '*.md'], { cwd: repository, encoding: 'utf8' })
  .split('\n')
  .filter((path) => path !== '')

/** Blocks that show single commands, each with the section of the page in which it is. */
const shBlocks = pages.flatMap((path) => {
  const text = read(path)
  return [...text.matchAll(/^```sh\n(.*?)^```$/gms)].map(({ index, 1: commands = '' }) => {
    const titles = [...text.slice(0, index).matchAll(/^#+ (.*)$/gm)]
    return { path, title: titles.at(-1)?.[1] ?? '', commands }
  })
})

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
      const { stdout } = await execute('bash', ['-euo', 'pipefail', '-c', script], {
        cwd: copyOfRepository(t),
        env: { ...process.env, HOLDFAST_ADMIN_PORT: new URL(admin).port },
      })
      const answers = [...stdout.matchAll(/\{"status":"([^"]+)"/g)].map(([, status]) => status)
      t.ok(answers.length > 0)
      t.same([...new Set(answers)], ['ok'], 'no command was refused')
      for (const text of shows) t.match(stdout, text)
    })
})

/**
 * Sections of `infra/OPERATING.md` whose `sh` blocks run here as well, in this order. Their paths
 * are places of the operator's machine: here they are below a temporary directory.
 */
const sections = [
  'Backup and restore',
  'Move in and out',
  'Upgrade and rollback',
  'Certificates and secrets',
] as const
const operatorsPaths = /(?<= )\/(mnt|srv|var\/lib)(?=\/)|(?<= )<directory>/g

/** Why no test runs the `sh` blocks of these sections. `test/command-line.test.ts` parses them. */
const notRun: Readonly<Record<string, string>> = {
  'CONTRIBUTING.md, Set up': 'they are the run of which this test is a part',
  'README.md, Holdfast': 'the same',
  'apps/api/GUIDE.md, rclone': '`test/clients` runs them with a real rclone',
  'infra/OPERATING.md, One machine': 'the service of this test is started without npm',
  'infra/OPERATING.md, What timers deleted': 'the id is that of a deletion by a timer, days ago',
  'infra/OPERATING.md, Abuse': 'ids, hashes and acts are examples; `apps/ctl/test` runs each command',
  'infra/OPERATING.md, A cluster on one machine': '`test/cluster` runs them; a cluster takes minutes',
  'infra/OPERATING.md, Regions from one file':
    'they need hosts; `npm run test:long` runs `infra` on namespaces',
  'infra/regions/CONTAINERS.md, Kubernetes': 'no test has Kubernetes',
  'infra/regions/NETWORK.md, TLS of admin hosts':
    'they need hosts; `test/cluster/admin-tls.test.ts` runs `ctl` by TLS',
  'infra/OPERATING.md, When something is lost': '`test/cluster/operator.test.ts` runs them on a cluster',
  'infra/OPERATING.md, Storage nodes of a cluster': 'the same',
  'infra/OPERATING.md, A backup of a cluster': '`test/cluster/backup.test.ts` runs them on a cluster',
  'infra/deploy/README.md, Deploy':
    'they need root and the directories of the system; `test/deploy.test.ts` checks the files',
  'infra/deploy/README.md, In containers': '`npm run test:long` runs the image with podman',
  'infra/namespaces/README.md, infra/namespaces: a deployment on one machine':
    'they need root; `npm run test:long` runs such a deployment',
  'infra/observe/README.md, On one machine': 'they install packages, as root',
  'infra/observe/README.md, In a deployment': 'it asks the alertmanager of a host',
  'test/sim/README.md, Simulation': '`test/sim.test.ts` runs the same with fewer seeds',
}

t.test('commands of the operator run as printed, with places of this machine', async (t) => {
  const places = dataDir(t)
  const service = await startProcess(join(places, 'var/lib/holdfast'))
  t.teardown(async () => {
    service.process.kill()
    await service.ended
  })
  const repositoryCopy = copyOfRepository(t)
  mkdirSync(join(places, 'srv/photos'), { recursive: true })
  mkdirSync(join(places, 'mnt/out'), { recursive: true })
  mkdirSync(join(places, 'mnt/backup'), { recursive: true })
  writeFileSync(join(places, 'srv/photos/one.txt'), 'one')
  const run = async (script: string) =>
    (
      await execute('bash', ['-euo', 'pipefail', '-c', script], {
        cwd: repositoryCopy,
        env: { ...process.env, HOLDFAST_ADMIN_PORT: new URL(service.admin).port },
      })
    ).stdout
  await run('npm run -s ctl -- account create ann@example.com')
  const printed: Record<string, string> = {}
  for (const section of sections) {
    const blocks = shBlocks.filter(({ path, title }) => path === 'infra/OPERATING.md' && title === section)
    t.ok(blocks.length > 0, section)
    const script = blocks.map(({ commands }) => commands).join('')
    printed[section] = await run(
      script.replace(operatorsPaths, (path) => join(places, path === '<directory>' ? 'ca' : path)),
    )
  }
  t.match(printed['Backup and restore'], '"broken": []')
  t.equal(readFileSync(join(places, 'mnt/out/ann/photos/one.txt'), 'utf8'), 'one')
})

t.test('every block of commands runs in a test, or is named with the reason', async (t) => {
  t.same(
    shBlocks
      .map(({ path, title }) => `${path}, ${title}`)
      .filter((name) => !(name in notRun) && !sections.some((title) => name.endsWith(`, ${title}`))),
    [],
  )
  for (const name of Object.keys(notRun))
    t.ok(
      shBlocks.some(({ path, title }) => name === `${path}, ${title}`),
      `${name} has commands`,
    )
  t.same(
    pages.filter((path) => read(path).includes('```bash') && !guides.some((guide) => guide.path === path)),
    [],
    '`bash` blocks are those of guides',
  )
})

t.test('the map names what is there', async (t) => {
  const { stdout } = await execute('git', ['ls-files'], { cwd: repository })
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
