import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { type ClientRequest, type IncomingMessage, request } from 'node:http'
import { join } from 'node:path'
import { json } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { freePorts } from '../../../infra/servers/ports.ts'
import { call, dataDir, launcher, main, startHere, startProcess } from './run.ts'

const repository = fileURLToPath(new URL('../../../', import.meta.url))

t.test('SIGTERM lets a running upload end, accepts no new ones, and the process exits 0', async (t) => {
  const service = await startProcess(dataDir(t))
  const { client, answer } = startUpload(service.upload)
  client.write('first half, ')
  // The service has received it once it counts it.
  while (!/holdfast_uploads_in_flight 1\n/.test(await (await fetch(`${service.admin}/metrics`)).text()));
  service.process.kill('SIGTERM')
  while ((await fetch(`${service.admin}/readyz`)).status !== 503);
  await t.rejects(fetch(`${service.api}/status`), 'the API host stopped listening')
  client.end(`second half\r\n--b--\r\n`)
  t.match(JSON.parse(await answer), { status: 'ok', data: { size: 23 } })
  t.equal(await service.ended, 0)
})

t.test('a stalled request is cut at the end of the drain time, and the exit is still 0', async (t) => {
  const service = await startProcess(dataDir(t), { HOLDFAST_DRAIN_SECONDS: '0.2' })
  const { client, answer } = startUpload(service.upload)
  client.write('and then nothing')
  while (!/holdfast_uploads_in_flight 1\n/.test(await (await fetch(`${service.admin}/metrics`)).text()));
  service.process.kill('SIGTERM')
  await t.rejects(answer)
  t.equal(await service.ended, 0)
})

t.test('a later second signal exits at once, a signal of the same key press does not', async (t) => {
  const service = await startProcess(dataDir(t))
  const { client, answer } = startUpload(service.upload)
  answer.catch(() => {})
  client.write('hanging')
  while (!/holdfast_uploads_in_flight 1\n/.test(await (await fetch(`${service.admin}/metrics`)).text()));
  service.process.kill('SIGINT')
  service.process.kill('SIGINT')
  while ((await fetch(`${service.admin}/readyz`)).status !== 503);
  const again = setInterval(() => service.process.kill('SIGINT'), 100)
  t.equal(await service.ended, 130)
  clearInterval(again)
})

t.test('the commands printed at the start work as printed', async (t) => {
  const service = await startProcess(dataDir(t))
  t.teardown(async () => {
    service.process.kill()
    await service.ended
  })
  const commands = service
    .stdout()
    .split('\n')
    .filter((line) => line.startsWith('    curl '))
  t.equal(commands.length, 2)
  const run = (command: string, env: Record<string, string> = {}) =>
    JSON.parse(
      execFileSync('sh', ['-c', command.trim()], {
        cwd: repository,
        env: { ...process.env, ...env },
        stdio: 'pipe',
      }).toString(),
    )
  const { data: file } = run(commands[0] as string)
  const { data: link } = run(commands[1] as string, { guestToken: file.guestToken, id: file.id })
  t.match(await (await fetch(link.directLink)).text(), 'npm start')
  t.equal((await fetch(file.downloadPage)).status, 200)
  t.equal(service.stderr(), '', 'no other output on the terminal')
})

t.test('a log that cannot be written loses its lines, and nothing else', async (t) => {
  const full = openSync('/dev/full', 'w')
  t.teardown(() => closeSync(full))
  const service = await startProcess(dataDir(t), {}, { errorsTo: full })
  t.match(service.stdout(), 'Stop:')
  for (let n = 0; n < 30; n++) {
    const url = new URL('/uploadfile', service.upload)
    const headers = { 'content-type': 'multipart/form-data; boundary=b', 'content-length': '900000000000' }
    const upload = request(url, { method: 'POST', headers })
    upload.on('error', () => {})
    // More than waits outside a stage.
    const bytes = 'x'.repeat(32 * 1024)
    upload.write(`--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n${bytes}`)
    const [answer] = (await once(upload, 'response')) as [IncomingMessage]
    t.equal(answer.statusCode, 507)
    t.same(await json(answer), { status: 'error-storageFull' })
    upload.destroy()
  }
  service.process.kill('SIGTERM')
  t.equal(await service.ended, 0)
})

t.test('a failing standard output ends nothing', async (t) => {
  const full = openSync('/dev/full', 'w')
  t.teardown(() => closeSync(full))
  const [api, admin] = await freePorts(2)
  const env = {
    PATH: process.env.PATH,
    HOLDFAST_DATA_DIR: dataDir(t),
    HOLDFAST_API_PORT: `${api}`,
    HOLDFAST_UPLOAD_PORT: '0',
    HOLDFAST_DOWNLOAD_PORT: '0',
    HOLDFAST_ADMIN_PORT: `${admin}`,
  }
  const service = spawn(launcher, [main], { env, stdio: ['ignore', full, full] })
  t.teardown(() => service.kill('SIGKILL'))
  const ended = once(service, 'exit')
  const isReady = async () => (await fetch(`http://127.0.0.1:${admin}/readyz`).catch(() => undefined))?.ok
  while (service.exitCode === null && !(await isReady())) await new Promise((later) => setTimeout(later, 20))
  t.equal((await fetch(`http://127.0.0.1:${api}/`)).status, 200)
  service.kill('SIGTERM')
  t.same(await ended, [0, null])
})

t.test(
  'an invalid configuration ends the start with all its faults and code 78, before anything is made',
  async (t) => {
    const service = await startProcess(dataDir(t), {
      HOLDFAST_RATE_LIMITS: 'maybe',
      HOLDFAST_SPEED: 'high',
    })
    t.equal(await service.ended, 78)
    t.match(service.stderr(), 'HOLDFAST_RATE_LIMITS is "maybe"')
    t.match(service.stderr(), 'HOLDFAST_SPEED is no setting')
    t.equal(service.stdout(), '')
  },
)

t.test('a directory in use, and a port in use, are reported by message and exit code', async (t) => {
  const dir = dataDir(t)
  const first = await startProcess(dir)
  const locked = await startProcess(dir)
  t.equal(await locked.ended, 75)
  t.match(locked.stderr(), /held by process \d+/)
  const port = new URL(first.api).port
  const taken = await startProcess(dataDir(t), { HOLDFAST_API_PORT: port })
  t.equal(await taken.ended, 69)
  t.match(taken.stderr(), 'HOLDFAST_API_PORT')
  t.notMatch(taken.stderr(), /^\s+at /m, 'no stack for a fault that an operator can fix')
  first.process.kill()
  t.equal(await first.ended, 0)
})

t.test(
  'a directory that cannot be made ends the start, with message and exit code',
  {
    skip: process.platform === 'linux' ? false : 'there is no /proc',
  },
  async (t) => {
    const service = await startProcess('/proc/holdfast/data')
    t.equal(await service.ended, 73)
    t.match(service.stderr(), /does not start: the data directory \/proc\/holdfast\/data .*HOLDFAST_DATA_DIR/)
  },
)

t.test('a data directory of a newer release, and one that must have a store, end the start', async (t) => {
  const dir = dataDir(t)
  const missing = await startProcess(join(dir, 'unmounted'), { HOLDFAST_REQUIRE_STORE: 'on' })
  t.equal(await missing.ended, 66)
  t.match(missing.stderr(), /has no store \(metadata.* HOLDFAST_REQUIRE_STORE=on makes none/)
  t.equal(existsSync(join(dir, 'unmounted')), false, 'nothing is made')

  const first = await startHere(dir)
  const { version, commit } = (await call(`${first.addresses.admin}/admin/status`)).data
  t.match(commit, /^[0-9a-f]{40}$/)
  const metrics = await first.metrics.metrics()
  t.match(metrics, `holdfast_build_info{version="${version}",commit="${commit}",role="standalone"`)
  await first.close()
  const again = await startHere(dir, { HOLDFAST_REQUIRE_STORE: 'on' })
  await again.close()

  const [blobs, elsewhere] = [join(dir, 'blobs'), join(dir, 'elsewhere')]
  renameSync(blobs, elsewhere)
  await t.rejects(startHere(dir), { code: 'DATA_MISSING', message: /has metadata and no files/ })
  symlinkSync('blobs', blobs)
  await t.rejects(startHere(dir), { code: 'DATA_UNUSABLE', message: /blobs.* cannot be read/ })
  rmSync(blobs)
  // What the message proposes.
  mkdirSync(join(blobs, 'extents'), { recursive: true })
  await (await startHere(dir)).close()
  rmSync(blobs, { recursive: true })
  renameSync(elsewhere, blobs)

  const release = join(dir, 'release.json')
  const { format } = JSON.parse(readFileSync(release, 'utf8'))
  t.match(JSON.parse(readFileSync(release, 'utf8')), { format: /^\d+$/, version, commit })
  writeFileSync(release, JSON.stringify({ format: format + 1, version: '0.9.0' }))
  const newer = await startProcess(dir)
  t.equal(await newer.ended, 65)
  t.match(
    newer.stderr(),
    new RegExp(
      `does not start: .* has format ${format + 1}, written by release 0.9.0; .* start release 0.9.0`,
    ),
  )
  t.notMatch(newer.stderr(), /^\s+at /m, 'no stack')
})

t.test(
  'files without their metadata are not taken for a new store, whose garbage they would be',
  async (t) => {
    const dir = dataDir(t)
    const first = await startHere(dir)
    const body = new FormData()
    body.append('file', new Blob(['kept']), 'a.txt')
    await call(`${first.addresses.upload}/uploadfile`, { method: 'POST', body })
    await first.close()
    renameSync(join(dir, 'metadata'), join(dir, 'elsewhere'))
    const half = await startProcess(dir)
    t.equal(await half.ended, 66)
    t.match(half.stderr(), /does not start: .* has files \(blobs\/extents\) and no metadata/)
    t.equal(existsSync(join(dir, 'metadata')), false, 'nothing is made')
    renameSync(join(dir, 'elsewhere'), join(dir, 'metadata'))
    await (await startHere(dir)).close()
  },
)

t.test('kill -9 loses nothing that was acknowledged', async (t) => {
  const dir = dataDir(t)
  const first = await startProcess(dir)
  const body = new FormData()
  body.append('file', new Blob(['durable']), 'a.txt')
  const { data: file } = await call(`${first.upload}/uploadfile`, { method: 'POST', body })
  first.process.kill('SIGKILL')
  await first.ended
  const second = await startProcess(dir)
  const headers = { authorization: `Bearer ${file.guestToken}` }
  const link = await call(`${second.api}/contents/${file.id}/directlinks`, { method: 'POST', headers })
  t.equal(await (await fetch(link.data.directLink)).text(), 'durable')
  second.process.kill()
  await second.ended
})

function startUpload(upload: string): { client: ClientRequest; answer: Promise<string> } {
  const client = request(`${upload}/uploadfile`, {
    method: 'POST',
    headers: { 'content-type': 'multipart/form-data; boundary=b', 'transfer-encoding': 'chunked' },
  })
  client.write('--b\r\nContent-Disposition: form-data; name="file"; filename="slow.txt"\r\n\r\n')
  const answer = once(client, 'response').then(async ([response]) => {
    let text = ''
    for await (const part of response) text += part
    return text
  })
  return { client, answer }
}
