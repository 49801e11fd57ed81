/**
 * The acceptance suite against a cluster of two regions, the tests that need a cluster, and a
 * short form of the faults. One start serves all of it.
 */

import { request } from 'node:http'
import { join } from 'node:path'
import t from 'tap'
import { allCases } from '../acceptance/cases.ts'
import { Instances } from '../acceptance/instances.ts'
import { runCases } from '../acceptance/suite.ts'
import { until } from '../support/until.ts'
import { faults } from './faults/faults.ts'
import { faultsOf, runFaults, tableOf } from './faults/run-faults.ts'
import { LocalCluster } from './local-cluster.ts'

const cluster = await LocalCluster.start()
t.teardown(() => cluster.stop())
const regions = await cluster.regions()
const [home, other] = regions as [(typeof regions)[0], (typeof regions)[0]]

interface UploadAnswer {
  id: string
  link: string
  guestToken: string
  servers: string[]
}

async function upload(
  host: string,
  content: string,
  headers: Record<string, string> = {},
): Promise<UploadAnswer> {
  const body = `--b\r\ncontent-disposition: form-data; name="file"; filename="a.txt"\r\n\r\n${content}\r\n--b--\r\n`
  const text = await new Promise<string>((resolve, reject) => {
    // Not fetch: it does not allow a custom Host header.
    const sending = request(`${host}/uploadfile`, {
      method: 'POST',
      headers: {
        'content-type': 'multipart/form-data; boundary=b',
        'content-length': body.length,
        ...headers,
      },
    })
    sending.once('error', reject)
    sending.once('response', (answer) => {
      let got = ''
      answer.setEncoding('utf8').on('data', (part: string) => {
        got += part
      })
      answer.once('error', reject).once('end', () => resolve(got))
    })
    sending.end(body)
  })
  const { status, data } = JSON.parse(text) as { status: string; data: UploadAnswer }
  if (status !== 'ok') throw new Error(`the upload was answered with ${status}`)
  return data
}

function account(api: string, token: string, id = 'getid'): Promise<Response> {
  return fetch(`${api}/accounts/${id}`, { headers: { authorization: `Bearer ${token}` } })
}

async function dataOf<T>(answer: Promise<Response>): Promise<T> {
  const { status, data } = (await (await answer).json()) as { status: string; data: T }
  if (status !== 'ok') throw new Error(`answered with ${status}`)
  return data
}

interface Details {
  rootFolder: string
  statsCurrent: { folderCount: number }
}

t.test('the cluster keeps the contract, in either region', async (t) => {
  const instances = new Instances()
  t.teardown(() => instances.stop())
  // Rate limits and switches are tested on instances of the embedded service: nothing of the
  // cluster is in them.
  const cases = allCases.filter(({ name }) => !name.startsWith('rate limits'))
  await runCases(cases, {
    hosts: {
      api: regions.map(({ api }) => api),
      upload: regions.map(({ upload }) => upload),
      download: regions.map(({ download }) => download),
      admin: regions.map(({ admin }) => admin),
      adminToken: undefined,
      web: home.api,
      outbox: [join(cluster.dataDir, 'outbox')],
    },
    instances,
    network: undefined,
    parallel: 12,
    report: ({ case: { name }, error }) => {
      if (error === undefined) t.pass(name)
      else t.fail(name, { reason: error instanceof Error ? error.stack : String(error) })
    },
  })
})

t.test('an upload is pinned to the region its host names, and its account is known everywhere', async (t) => {
  const file = await upload(home.upload, 'pinned', { host: `upload-${other.code}.example.org` })
  t.ok(file.servers.length > 0)
  t.ok(
    file.servers.every((server) => server.startsWith(other.code)),
    file.servers.join(),
  )
  for (const { api } of regions) t.equal((await account(api, file.guestToken)).status, 200, api)
})

t.test('a host that was paused while another took its accounts over answers nothing stale', async (t) => {
  const file = await upload(home.upload, 'paused')
  const { id } = await dataOf<{ id: string }>(account(home.api, file.guestToken))
  const details = () => dataOf<Details>(account(home.api, file.guestToken, id))
  const { rootFolder: parentFolderId } = await details()
  const folderCount = async () => (await details()).statsCurrent.folderCount
  const made = async () => {
    const answer = await fetch(`${home.api}/contents/createFolder`, {
      method: 'POST',
      headers: { authorization: `Bearer ${file.guestToken}`, 'content-type': 'application/json' },
      body: JSON.stringify({ parentFolderId }),
    })
    return answer.ok
  }
  const before = await folderCount()
  const hosts = home.processes.filter(({ role }) => role === 'actor-host').map(({ name }) => name)
  let count = before
  for (const host of hosts) {
    const pid = await cluster.pidOf(host)
    process.kill(pid, 'SIGSTOP')
    try {
      await until(made)
      count = await folderCount()
    } finally {
      process.kill(pid, 'SIGCONT')
    }
    for (let read = 0; read < 20; read++) {
      const now = await folderCount()
      t.ok(now >= count, `${now} folders after ${count} were seen`)
      count = now
    }
  }
  t.ok(count >= before + hosts.length)
})

t.test('a link keeps working when the node that served it is killed, and the node comes back', async (t) => {
  const file = await upload(home.upload, 'kept twice')
  const [first = ''] = file.servers
  process.kill(await cluster.pidOf(first), 'SIGKILL')
  t.equal(await (await fetch(file.link)).text(), 'kept twice')
  await cluster.restart(first)
  t.equal(await (await fetch(file.link)).text(), 'kept twice')
})

t.test('while hosts die and the regions are cut off, what was acknowledged stays', async (t) => {
  const seed = Date.now() % 1_000_000_000
  t.comment(`seed ${seed}; again with: npm run test:long -- --only cluster --runs 1 --seed ${seed}`)
  const report = (line: string) => t.comment(line)
  const daily = faults.filter((fault) => fault.daily)
  const rows = await runFaults(cluster, { faults: daily, runs: 1, seed, long: false, filesMax: 5, report })
  t.comment(`\n${tableOf(rows)}`)
  t.equal(rows.length, 2)
  for (const row of rows) {
    t.strictSame(faultsOf(row), [], row.fault)
    t.ok(row.acknowledged > 0, `${row.fault}: ${row.acknowledged} acknowledged changes`)
  }
})
