/**
 * The plan of a cluster: from the operator's settings and the random choices of the first start.
 */
import { relative } from 'node:path'
import t from 'tap'
import { type Plan, planOf, readPlan, writePlan } from '../../infra/cluster/plan.ts'
import { checkProcesses, givenSettings } from '../../infra/cluster/settings.ts'
import { closed, freePorts, listening } from '../../infra/servers/ports.ts'

/** On an address of this file alone: no other test uses its ports. */
const anyPorts = {
  HOLDFAST_BIND: '127.0.0.77',
  HOLDFAST_API_PORT: '0',
  HOLDFAST_UPLOAD_PORT: '0',
  HOLDFAST_DOWNLOAD_PORT: '0',
  HOLDFAST_ADMIN_PORT: '0',
}

function settingOf({ processes }: Plan, name: string, process: string): string | undefined {
  return processes.find((one) => one.name === process)?.settings[`HOLDFAST_${name}`]
}

t.test('the same settings make the same plan again: random choices stay', async (t) => {
  const dataDir = t.testdir()
  t.equal(readPlan(dataDir), undefined)
  const first = await planOf(dataDir, anyPorts)
  checkProcesses(first, anyPorts)
  writePlan(dataDir, first)
  const again = await planOf(dataDir, anyPorts, readPlan(dataDir))
  t.strictSame(again, first)
  const ports = first.processes.flatMap(({ settings }) => [settings.HOLDFAST_CONTROL_PORT ?? []].flat())
  t.equal(new Set(ports).size, 6, 'each its own')
})

t.test('settings of a later start take effect, and change nothing else', async (t) => {
  const first = await planOf('/data', anyPorts)
  const drawn = first.processes.flatMap(({ settings }) => Object.values(settings))
  const free = await freePorts(300, '127.0.0.78')
  const port = free.find(
    (one) => free.includes(one + 100) && ![one, one + 100].some((wanted) => drawn.includes(String(wanted))),
  ) as number
  const settings = {
    ...anyPorts,
    HOLDFAST_API_PORT: String(port),
    HOLDFAST_BIND: '127.0.0.78',
    HOLDFAST_ADMIN_BIND: '127.0.0.79',
    HOLDFAST_CLUSTER_SECRET: 'another secret'.replace(' ', '-and-longer-'),
    HOLDFAST_PUBLIC_UPLOAD_URL: 'https://up.example.org',
  }
  const later = await planOf('/data', settings, first)
  t.match(later.regions, [
    { api: `http://127.0.0.78:${port}`, upload: 'https://up.example.org' },
    { api: `http://127.0.0.78:${port + 100}` },
  ])
  t.match(later.regions[0]?.admin, /^http:\/\/127\.0\.0\.79:/)
  for (const process of ['eu-par-api-1', 'eu-par-storage-2']) {
    t.equal(settingOf(later, 'API_PORT', process), String(port))
    t.equal(settingOf(later, 'CLUSTER_SECRET', process), settings.HOLDFAST_CLUSTER_SECRET)
  }
  for (const name of [
    'ADMIN_PORT',
    'CONTROL_PORT',
    'BYTES_PORT',
    'DOWNLOAD_PORT',
    'NATS_SERVERS',
    'CASSANDRA',
  ])
    t.equal(settingOf(later, name, 'na-nyc-storage-2'), settingOf(first, name, 'na-nyc-storage-2'), name)
  t.strictSame(later.nats, first.nats)
  t.equal(
    settingOf(later, 'DOWNLOAD_PORT', 'eu-par-api-1'),
    settingOf(first, 'DOWNLOAD_PORT', 'eu-par-api-1'),
  )
})

t.test('a random port that another program has taken is chosen again, the others stay', async (t) => {
  const first = await planOf('/data', anyPorts)
  const port = Number(settingOf(first, 'CONTROL_PORT', 'eu-par-storage-1'))
  const taker = await listening({ host: '127.0.0.77', port })
  t.teardown(() => closed(taker))
  const later = await planOf('/data', anyPorts, first)
  t.not(settingOf(later, 'CONTROL_PORT', 'eu-par-storage-1'), String(port))
  t.strictSame(
    { ...later, regions: [], processes: later.processes.filter(({ name }) => name !== 'eu-par-storage-1') },
    { ...first, regions: [], processes: first.processes.filter(({ name }) => name !== 'eu-par-storage-1') },
  )
  t.strictSame(later.regions, first.regions)
})

t.test('unavailable chosen ports are all named at once; others may be chosen then', async (t) => {
  const earlier = await planOf('/data', anyPorts)
  const [api = 0, upload = 0] = await freePorts(2, '127.0.0.77')
  const takers = await Promise.all([api, upload].map((port) => listening({ host: '127.0.0.77', port })))
  t.teardown(() => Promise.all(takers.map(closed)))
  const settings = { ...anyPorts, HOLDFAST_API_PORT: `${api}`, HOLDFAST_UPLOAD_PORT: `${upload}` }
  await t.rejects(planOf('/data', settings, earlier), {
    code: 'PORT_TAKEN',
    message: new RegExp(`:${api} for the api host is taken.*\\n.*:${upload} for the upload host`),
  })
  await t.rejects(
    planOf('/data', {
      ...anyPorts,
      HOLDFAST_API_PORT: '9080',
      HOLDFAST_UPLOAD_PORT: '9180',
      HOLDFAST_ADMIN_PORT: '65500',
    }),
    {
      code: 'SETTINGS',
      faults: [
        /^HOLDFAST_API_PORT is 9080, which gives na-nyc 9180, as HOLDFAST_UPLOAD_PORT does eu-par$/,
        /^HOLDFAST_ADMIN_PORT is 65500, which gives na-nyc 65600, above 65535$/,
      ],
    },
  )
  t.ok(await planOf('/data', anyPorts, earlier))
})

t.test('given settings are read as the processes read them', async (t) => {
  const dir = t.testdir({ secret: 'a-secret-of-a-file\n' })
  t.throws(
    () =>
      givenSettings({ HOLDFAST_API_PORT: 'abc', HOLDFAST_RATE_LIMITS: 'maybe', HOLDFAST_GUEST_CONTENT: '1' }),
    {
      code: 'SETTINGS',
      faults: [/^HOLDFAST_GUEST_CONTENT is no setting/, /^HOLDFAST_API_PORT/, /^HOLDFAST_RATE_LIMITS/],
    },
  )
  const given = givenSettings({
    ...anyPorts,
    HOLDFAST_CLUSTER_SECRET_FILE: `${dir}/secret`,
    HOLDFAST_ADMIN_TOKEN_FILE: relative(process.cwd(), `${dir}/secret`),
    OTHER: 'x',
  })
  t.strictSame(given, {
    ...anyPorts,
    HOLDFAST_CLUSTER_SECRET: 'a-secret-of-a-file',
    HOLDFAST_ADMIN_TOKEN_FILE: `${dir}/secret`,
  })
})
