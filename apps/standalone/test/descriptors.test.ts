/** The whole service under a limit of open files. */
import { execFile } from 'node:child_process'
import { connect } from 'node:net'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import t from 'tap'
import { call, dataDir, freePorts, startProcess } from './run.ts'

const run = promisify(execFile)
const main = fileURLToPath(new URL('../src/main.ts', import.meta.url))

t.test('a start with 64 descriptors says how many it needs, and ends', async (t) => {
  const env = { PATH: process.env.PATH, ...freePorts, HOLDFAST_DATA_DIR: dataDir(t) }
  const ended = await run('sh', ['-c', 'ulimit -n 64 && exec "$0" "$1"', process.execPath, main], {
    env,
  }).then(
    () => undefined,
    (error: { code: number; stderr: string }) => error,
  )
  t.equal(ended?.code, 71)
  t.match(ended?.stderr, /may open 64 files, but takes \d+ or more: .*ulimit -n.*LimitNOFILE/)
})

t.test('with 256 it serves, and says that few connections are left', async (t) => {
  const service = await startProcess(dataDir(t), {}, { descriptors: 256 })
  t.teardown(async () => {
    service.process.kill('SIGKILL')
    await service.ended
  })
  t.equal((await fetch(`${service.admin}/readyz`)).status, 200)
  t.match(service.stderr(), /may open 256 files, which leaves \d+ connections for each host: raise the limit/)
})

t.test('with 1,024 it serves, and idle connections block neither users nor the operator', async (t) => {
  const service = await startProcess(dataDir(t), {}, { descriptors: 1_024 })
  t.teardown(async () => {
    service.process.kill('SIGKILL')
    await service.ended
  })
  const { port } = new URL(service.api)
  const sockets = Array.from({ length: 1_100 }, (_, at) =>
    connect({ port: Number(port), host: '127.0.0.1', localAddress: `127.0.1.${1 + (at % 100)}` }).on(
      'error',
      () => {},
    ),
  )
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
  })
  await Promise.all(
    sockets.map((socket) => new Promise((done) => socket.once('connect', done).once('close', done))),
  )
  const { data: account } = await call(`${service.api}/accounts`, { method: 'POST' })
  t.type(account.token, 'string', 'metadata is written')
  t.equal((await fetch(`${service.admin}/readyz`)).status, 200)
  t.match(
    await (await fetch(`${service.admin}/metrics`)).text(),
    /holdfast_connections_evicted_total\{host="api",reason="silent"\} [1-9]/,
  )
})
