/**
 * The plan of a cluster: from the operator's settings and the random choices of the first start.
 */
import { statSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import t from 'tap'
import { parse } from 'yaml'
import { linksOf } from '../../infra/cluster/links.ts'
import { planOf, regionOrder } from '../../infra/cluster/plan.ts'
import { readPlan, writePlan } from '../../infra/cluster/plan-file.ts'
import type { LocalPlan } from '../../infra/cluster/planned-processes.ts'
import { listenAddressOf } from '../../infra/cluster/platform.ts'
import { checkProcesses, givenSettings } from '../../infra/cluster/settings.ts'
import { freePorts, listening, whenClosed } from '../../infra/servers/ports.ts'

/** On an address of this file alone: no other test uses its ports. */
const anyPorts = {
  HOLDFAST_BIND: '127.0.0.77',
  HOLDFAST_API_PORT: '0',
  HOLDFAST_UPLOAD_PORT: '0',
  HOLDFAST_DOWNLOAD_PORT: '0',
  HOLDFAST_ADMIN_PORT: '0',
}

function settingOf({ processes }: LocalPlan, name: string, process: string): string | undefined {
  return processes.find((one) => one.name === process)?.settings[`HOLDFAST_${name}`]
}

t.test('the same settings make the same plan again: random choices stay', async (t) => {
  const dataDir = t.testdir()
  t.equal(readPlan(dataDir), undefined)
  const first = await planOf(dataDir, anyPorts)
  checkProcesses(first, anyPorts)
  writePlan(dataDir, first)
  const again = await planOf(dataDir, anyPorts, { earlier: readPlan(dataDir) })
  t.strictSame(again, first)
  t.equal(statSync(join(dataDir, 'plan.json')).mode & 0o077, 0, 'its secrets are readable by its user')
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
  const later = await planOf('/data', settings, { earlier: first })
  t.match(later.regions, [
    { api: `http://127.0.0.78:${port}`, upload: 'https://up.example.org' },
    { api: `http://127.0.0.78:${port + 100}` },
  ])
  t.match(later.regions[0]?.admin, /^http:\/\/127\.0\.0\.79:/)
  t.equal(settingOf(later, 'API_PORT', 'eu-par-api-1'), String(port))
  for (const process of ['eu-par-api-1', 'eu-par-storage-2'])
    t.equal(settingOf(later, 'CLUSTER_SECRET', process), settings.HOLDFAST_CLUSTER_SECRET)
  for (const name of [
    'ADMIN_PORT',
    'CONTROL_PORT',
    'BYTES_PORT',
    'DOWNLOAD_PORT',
    'NATS_SERVERS',
    'CASSANDRA',
  ])
    t.equal(settingOf(later, name, 'na-nyc-storage-2'), settingOf(first, name, 'na-nyc-storage-2'), name)
  t.strictSame(later.choices.secrets, { ...first.choices.secrets, cluster: settings.HOLDFAST_CLUSTER_SECRET })
  t.equal(
    settingOf(later, 'DOWNLOAD_PORT', 'eu-par-upload-1'),
    settingOf(first, 'DOWNLOAD_PORT', 'eu-par-upload-1'),
  )
})

t.test('a random port that another program has taken is chosen again, the others stay', async (t) => {
  const first = await planOf('/data', anyPorts)
  const port = Number(settingOf(first, 'CONTROL_PORT', 'eu-par-storage-1'))
  const host = settingOf(first, 'INTERNAL_BIND', 'eu-par-storage-1') as string
  const taker = await listening({ host, port })
  t.teardown(() => whenClosed(taker))
  const later = await planOf('/data', anyPorts, { earlier: first })
  t.not(settingOf(later, 'CONTROL_PORT', 'eu-par-storage-1'), String(port))
  const others = ({ processes }: LocalPlan) => processes.filter(({ name }) => name !== 'eu-par-storage-1')
  t.strictSame(others(later), others(first))
  t.strictSame(later.regions, first.regions)
})

t.test('a port of NATS is free on the addresses of all regions, and no port is used twice', async (t) => {
  const first = await planOf('/data', anyPorts)
  const { ports } = first.choices
  const taker = await listening({
    host: listenAddressOf(first.regions[1]?.address ?? ''),
    port: ports['nats gateway'] ?? 0,
  })
  t.teardown(() => whenClosed(taker))
  const twice = { ...ports, 'eu-par-storage-1 bytes': ports['eu-par-storage-1 control'] ?? 0 }
  const later = await planOf('/data', anyPorts, {
    earlier: { ...first, choices: { ...first.choices, ports: twice } },
  })
  t.not(later.choices.ports['nats gateway'], ports['nats gateway'])
  t.equal(later.choices.ports['nats client'], ports['nats client'])
  const all = Object.values(later.choices.ports)
  t.equal(new Set(all).size, all.length)
})

t.test('unavailable chosen ports are all named at once; others may be chosen then', async (t) => {
  const earlier = await planOf('/data', anyPorts)
  const [api = 0, upload = 0] = await freePorts(2, '127.0.0.77')
  const takers = await Promise.all([api, upload].map((port) => listening({ host: '127.0.0.77', port })))
  t.teardown(() => Promise.all(takers.map(whenClosed)))
  const settings = { ...anyPorts, HOLDFAST_API_PORT: `${api}`, HOLDFAST_UPLOAD_PORT: `${upload}` }
  await t.rejects(planOf('/data', settings, { earlier }), {
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
  t.ok(await planOf('/data', anyPorts, { earlier }))
})

for (const count of [1, 2, 3, 8])
  t.test(`a cluster of ${count} regions is complete, and nothing listens twice on an address`, async (t) => {
    const plan = await planOf('/data', anyPorts, { regions: count })
    const codes = regionOrder.slice(0, count)
    t.strictSame(
      plan.regions.map(({ code }) => code),
      codes,
    )
    t.equal(new Set(plan.processes.map(({ name }) => name)).size, 8 * count)
    t.doesNotThrow(() => checkProcesses(plan, anyPorts), 'each process accepts its settings')
    const { ports } = plan.choices
    const listeners = [
      ...plan.processes.flatMap(({ settings, role }) => {
        const own = { control: 'INTERNAL_BIND', bytes: 'INTERNAL_BIND', admin: 'ADMIN_BIND' }
        const all = ['API', 'UPLOAD', 'DOWNLOAD', 'ADMIN', 'CONTROL', 'BYTES'].flatMap((name) => {
          const port = settings[`HOLDFAST_${name}_PORT`]
          const bind = own[name.toLowerCase() as keyof typeof own] ?? 'BIND'
          return port === undefined ? [] : [`${settings[`HOLDFAST_${bind}`]}:${port}`]
        })
        const needed = { api: 2, upload: 5, 'storage-node': 4, 'actor-host': 1, nats: 0, cassandra: 0 }
        t.equal(all.length, needed[role], role)
        return all
      }),
      ...plan.regions.flatMap(({ address }) =>
        [7000, 9042, ports['nats client'], ports['nats cluster'], ports['nats gateway']].map(
          (port) => `${address}:${port}`,
        ),
      ),
      ...linksOf(plan).flatMap(({ target, from }) =>
        typeof from === 'string' ? [] : [`${target.host}:${target.port}`],
      ),
    ]
    t.equal(new Set(listeners).size, listeners.length)
    for (const { code, address } of plan.regions) {
      const api = plan.processes.find(({ name }) => name === `${code}-api-1`)?.settings ?? {}
      t.match(api, {
        HOLDFAST_REGION: code,
        HOLDFAST_REGIONS: codes.join(','),
        HOLDFAST_CASSANDRA: plan.regions.map((one) => `${one.code}=${one.address}:9042`).join(';'),
        HOLDFAST_NATS_SERVERS: `${address}:${ports['nats client']}`,
      })
      t.notMatch(Object.keys(api).join(), /TLS|CASSANDRA_USER|_FILE/, 'neither certificates nor logins')
    }
  })

t.test('servers of a cluster have the configuration of a deployment, without certificates', async (t) => {
  const plan = await planOf('/data', anyPorts, { regions: 3 })
  const filesOf = (name: string) => plan.processes.find((one) => one.name === name)?.files ?? {}
  const [first, second] = plan.regions.map(({ address }) => address) as [string, string]
  const yaml = parse(filesOf('na-nyc-cassandra')['cassandra.yaml'] ?? '') as Record<string, unknown>
  t.match(yaml, {
    cluster_name: 'holdfast',
    num_tokens: 4,
    listen_address: second.replace(/\d+$/, '102'),
    broadcast_address: second,
    rpc_address: second,
    authenticator: { class_name: /AllowAllAuthenticator$/ },
    commitlog_sync: 'batch',
    data_file_directories: ['/data/na-nyc-cassandra/data/data'],
    memtable_allocation_type: 'offheap_objects',
  })
  t.notMatch(Object.keys(yaml).join(), /encryption|allocate_tokens/)
  t.equal(filesOf('na-nyc-cassandra')['cassandra-rackdc.properties'], 'dc=na-nyc\nrack=r1\n')
  const { 'nats.conf': conf = '', 'secrets/nats-users.conf': users } = filesOf('eu-par-nats')
  const { ports, secrets } = plan.choices
  t.equal(users, `HOLDFAST_PASSWORD: "${secrets.nats}"\nSYSTEM_PASSWORD: "${secrets.natsSystem}"\n`)
  t.notMatch(conf, /tls|http:/)
  t.notOk(conf.includes(secrets.nats))
  t.match(conf, `advertise: "${first}:${ports['nats gateway']}"`)
  const asked = [...conf.matchAll(/authorization \{\n {4}user: "(\w+)"\n {4}password: \$(\w+)\n/g)]
  t.same(
    asked.map(([, user, password]) => [user, password]),
    [
      ['holdfast', 'HOLDFAST_PASSWORD'],
      ['system', 'SYSTEM_PASSWORD'],
    ],
    'routes, and gateways: a reload with another password of these is refused',
  )
  t.match(conf, `{ name: "na-nyc", urls: ["nats://${second}:${ports['nats gateway']}"] }`)
  const alone = await planOf('/data', anyPorts, { regions: 1 })
  t.notMatch(alone.processes.find(({ role }) => role === 'nats')?.files?.['nats.conf'], /gateway/)
})

t.test('every region reaches the addresses of every other one by a link', async (t) => {
  const plan = await planOf('/data', anyPorts, { regions: 3 })
  const links = linksOf(plan)
  for (const { code, address } of plan.regions) {
    const into = links.filter(({ to }) => to === code)
    const others = plan.regions.map((one) => one.code).filter((one) => one !== code)
    const reported = into.filter(({ from }) => typeof from !== 'string')
    t.match(reported, [
      { from: { regions: others }, listen: { host: address, port: 7000 } },
      { from: { regions: others }, listen: { host: address, port: plan.choices.ports['nats gateway'] } },
    ])
    for (const { target } of reported) t.not(target.host, address)
    for (const other of others) {
      const targets = into.filter(({ from }) => from === other).map(({ target }) => target)
      // Cassandra, and three ports of two storage nodes and an upload frontend.
      t.equal(targets.length, 10)
      for (const name of ['storage-1', 'storage-2', 'upload-1'])
        t.ok(
          targets.some(({ port }) => String(port) === settingOf(plan, 'BYTES_PORT', `${code}-${name}`)),
          name,
        )
    }
  }
  t.strictSame(linksOf(await planOf('/data', anyPorts, { regions: 1 })), [])
})

t.test('data keeps its regions, and gets further ones', async (t) => {
  const three = await planOf('/data', anyPorts, { regions: 3 })
  for (const regions of [undefined, 3])
    t.strictSame(await planOf('/data', anyPorts, { regions, earlier: three }), three)
  await t.rejects(planOf('/data', anyPorts, { regions: 2, earlier: three }), {
    code: 'SETTINGS',
    faults: [/^--regions is 2, but the data directory has 3, and none is taken away: /],
  })
  const four = await planOf('/data', anyPorts, { regions: 4, earlier: three })
  t.strictSame(
    four.regions.map(({ code }) => code),
    regionOrder.slice(0, 4),
  )
  t.strictSame(four.regions.slice(0, 3), three.regions, 'addresses stay')
  t.match(four.choices, { network: three.choices.network, secrets: three.choices.secrets })
  t.match(four.choices.ports, three.choices.ports)
  t.doesNotThrow(() => checkProcesses(four, anyPorts))
})

t.test('plan.json of an earlier program is read; a later one is refused', async (t) => {
  const dataDir = t.testdir()
  const path = join(dataDir, 'plan.json')
  const [client, gateway, control] = await freePorts(3)
  writeFileSync(
    path,
    JSON.stringify({
      version: 1,
      nats: { user: 'holdfast', password: 'of-nats' },
      regions: ['eu-par', 'na-nyc'].map((code, at) => ({
        code,
        api: 'http://127.0.0.1:20001',
        upload: 'http://127.0.0.1:20002',
        download: 'http://127.0.0.1:20003',
        admin: 'http://127.0.0.1:20004',
        cassandra: `127.0.211.${at + 1}`,
        natsPort: at === 0 ? client : 1,
        gatewayPort: at === 0 ? gateway : 1,
      })),
      processes: [
        { name: 'eu-par-nats', role: 'nats', region: 'eu-par', admin: null, settings: {} },
        {
          name: 'eu-par-storage-1',
          role: 'storage-node',
          region: 'eu-par',
          admin: 'http://127.0.0.1:20030',
          settings: { HOLDFAST_CONTROL_PORT: `${control}`, HOLDFAST_CLUSTER_SECRET: 'of-the-cluster-itself' },
        },
      ],
    }),
  )
  const plan = await planOf(dataDir, anyPorts, { earlier: readPlan(dataDir) })
  t.match(plan.choices, {
    network: 211,
    secrets: { cluster: 'of-the-cluster-itself', nats: 'of-nats', natsSystem: /^.{32}$/ },
    ports: { 'nats client': client, 'nats gateway': gateway, 'eu-par-storage-1 control': control },
  })
  t.match(plan.regions, [{ address: '127.0.211.1' }, { address: '127.0.211.2' }])
  t.ok(Object.values(plan.choices.ports).every(Number.isInteger))
  checkProcesses(plan, anyPorts)
  writeFileSync(path, '{"version": 3}')
  t.throws(() => readPlan(dataDir), {
    code: 'DATA_FORMAT',
    message: /version 3.*name another HOLDFAST_DATA_DIR/,
  })
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
