/**
 * What encryption costs beside plain bytes: one process sends a body over loopback to another one,
 * over TCP and over TLS 1.3, in turn. It prints bytes a second, and the CPU time of each side.
 *
 *   infra/launch.sh bench/tls-cost.ts [GiB]
 *
 * The body is sent from memory in pieces of 64 KiB, as downloads are, without HTTP and without the
 * disk: the difference is encryption alone. Both sides run on the same machine, so the rate is that
 * of its cores and no network's. The certificate has a key on P-256, as `ctl certs` makes them.
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { type AddressInfo, createServer, connect as plainConnect, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createServer as createTlsServer, connect as tlsConnect } from 'node:tls'
import { Authority } from '@holdfast/trust'

const gib = 2 ** 30
const pieceBytes = 64 * 1_024
const rounds = 5

interface Way {
  tls: boolean
  port: number
  ca: string
}

interface Cost {
  seconds: number
  sender: number
  receiver: number
}

if (process.send === undefined) await measure(Number(process.argv[2] ?? 2) * gib)
else receive(JSON.parse(process.argv[2] ?? '') as Way)

async function measure(bytes: number): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'tls-cost-'))
  try {
    const authority = await Authority.create(join(folder, 'ca'), { name: 'bench', days: 1 })
    await authority.issue({ host: 'one', names: ['127.0.0.1'] }, { days: 1 })
    const at = (name: string) => readFileSync(join(folder, 'ca/one', name), 'utf8')
    const files = { ca: at('ca.pem'), cert: at('node.pem'), key: at('node.key') }
    const costs = { plain: [] as Cost[], tls: [] as Cost[] }
    // In turn: what else the machine does meets both.
    for (let round = 0; round < rounds; round++)
      for (const way of ['plain', 'tls'] as const)
        costs[way].push(await sendOnce(way === 'tls', bytes, files))
    print('plain', costs.plain, bytes)
    print('TLS 1.3', costs.tls, bytes)
    const cpu = (side: 'sender' | 'receiver') => median(costs.tls, side) / median(costs.plain, side)
    console.log(
      `CPU, TLS to plain: sender ${cpu('sender').toFixed(2)}, receiver ${cpu('receiver').toFixed(2)}`,
    )
  } finally {
    rmSync(folder, { recursive: true })
  }
}

async function sendOnce(
  tls: boolean,
  bytes: number,
  files: { ca: string; cert: string; key: string },
): Promise<Cost> {
  const server = tls ? createTlsServer({ ...files, minVersion: 'TLSv1.3' }) : createServer()
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const way: Way = { tls, port: (server.address() as AddressInfo).port, ca: files.ca }
  const child = fork(import.meta.filename, [JSON.stringify(way)])
  const said = once(child, 'message')
  const [socket] = (await once(server, tls ? 'secureConnection' : 'connection')) as [Socket]
  const [cpuBefore, startedMs] = [process.cpuUsage(), performance.now()]
  const piece = Buffer.alloc(pieceBytes, 'holdfast')
  for (let sent = 0; sent < bytes; sent += pieceBytes) if (!socket.write(piece)) await once(socket, 'drain')
  socket.end()
  const [receiver] = (await said) as [number]
  const { user, system } = process.cpuUsage(cpuBefore)
  const seconds = (performance.now() - startedMs) / 1_000
  server.close()
  return { seconds, sender: (user + system) / 1e6, receiver }
}

function receive({ tls, port, ca }: Way): void {
  const at = { port, host: '127.0.0.1' }
  const socket = tls ? tlsConnect({ ...at, ca }) : plainConnect(at)
  const cpuBefore = process.cpuUsage()
  socket.resume()
  socket.once('end', () => {
    const { user, system } = process.cpuUsage(cpuBefore)
    process.send?.((user + system) / 1e6, () => process.disconnect())
  })
}

function print(what: string, costs: readonly Cost[], bytes: number): void {
  const size = bytes / gib
  const rate = (bytes / 1e6 / median(costs, 'seconds')).toFixed(0)
  const cpu = (side: 'sender' | 'receiver') => (median(costs, side) / size).toFixed(2)
  console.log(
    `${what.padEnd(8)} ${rate} MB/s, CPU-s a GiB: sender ${cpu('sender')}, receiver ${cpu('receiver')}`,
  )
}

function median(costs: readonly Cost[], field: keyof Cost): number {
  const sorted = costs.map((one) => one[field]).sort((a, b) => a - b)
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN
}
