/** A deployment from one file: what is rendered, what is refused, and what is done on hosts. */
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { readClusterConfig, readConfig } from '@holdfast/config'
import { planGroups } from '@holdfast/replication'
import t from 'tap'
import { parse, parseAllDocuments } from 'yaml'
import { kubernetesCheck } from '../infra/check/validators.ts'
import { sameAsGolden } from '../infra/golden.ts'
import { readDeployment } from '../infra/regions/deployment.ts'
import { fillingScripts, joiningOf, regionsScript } from '../infra/regions/growth.ts'
import { HostFault, joiningNodes, needsOf, nodeScript, upScript, workOf } from '../infra/regions/hosts.ts'
import { loginsHost, loginsRepairs, loginsScript } from '../infra/regions/logins.ts'
import { differences, writeOutput } from '../infra/regions/output.ts'
import { hostsWith, planOf } from '../infra/regions/plan.ts'
import { operatorPasswordFile } from '../infra/regions/platform.ts'
import { render } from '../infra/regions/render.ts'
import type { DeploymentFault } from '../infra/regions/source.ts'
import { warningsOf } from '../infra/regions/warnings.ts'

const root = join(import.meta.dirname, '..')
const folder = join(root, 'infra/regions')
const examples = readdirSync(folder).filter((name) => name.endsWith('.yaml'))
const textOf = (name: string) => readFileSync(join(folder, name), 'utf8')
const deploymentOf = (name: string) => readDeployment(textOf(name), name)
const three = textOf('three.yaml')

/** Settings that name an authority need one. */
const certificate = spawnSync(
  'openssl',
  [
    ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes'],
    ...['-keyout', '/dev/null', '-subj', '/CN=authority'],
  ],
  { encoding: 'utf8' },
).stdout

/** Golden files show these whole; of the others they keep a digest. */
const shown = /^(dns|hosts\/(files1|par1|par3))\/|kubernetes\/eu-par\/(kustomization|par3\/processes)\.yaml/

t.test('the examples are one machine, one region, three and eight regions', async (t) => {
  t.strictSame(examples.sort(), ['eight.yaml', 'one.yaml', 'three-hosts.yaml', 'three.yaml'])
  t.equal(deploymentOf('eight.yaml').regions.length, 8)
})

for (const name of examples)
  t.test(`${name} is rendered as before`, async (t) => {
    const files = render(deploymentOf(name))
    t.strictSame([...files], [...render(deploymentOf(name))], 'a second time, too')
    t.strictSame([...files.keys()], [...files.keys()].sort(), 'sorted')
    const whole = name === 'one.yaml' || name === 'three.yaml'
    const lines = [...files].flatMap(([path, text]) =>
      whole && shown.test(path)
        ? [`== ${path}`, ...text.trimEnd().split('\n')]
        : [`== ${path} ${createHash('sha256').update(text).digest('hex').slice(0, 16)}`],
    )
    sameAsGolden(t, join(import.meta.dirname, 'regions'), name.replace('.yaml', '.txt'), lines)
  })

for (const name of examples)
  t.test(`each process of ${name} accepts its settings`, async (t) => {
    const files = render(deploymentOf(name))
    const readSecret = (path: string) => {
      if (path.endsWith('/smtp-url')) return 'smtps://user:password@mail.example'
      return path.endsWith('.pem') ? certificate : `a-secret-of-sixteen-and-more ${path}`.replaceAll(' ', '')
    }
    for (const { hosts } of planOf(deploymentOf(name)).regions)
      for (const { name: host, processes } of hosts)
        for (const { name: process, role } of processes) {
          const text = files.get(`hosts/${host}/etc/holdfast/${process}.env`) ?? ''
          const env = Object.fromEntries(
            text
              .trimEnd()
              .split('\n')
              .map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]),
          )
          const read = role === 'standalone' ? readConfig : readClusterConfig
          t.doesNotThrow(
            () => read(env, { readSecret }),
            `${process}: unknown names and bad values are faults`,
          )
          t.notMatch(text, /(PASSWORD|SECRET|TOKEN)=/, 'secrets are not rendered')
        }
  })

t.test('processes of a host share no port, in all combinations', async (t) => {
  const text = three.replace(
    'roles: [nats, cassandra, actor-host, storage-node, upload, api, proxy]',
    `roles: [nats, cassandra, proxy, ${['actor-host', 'storage-node', 'upload', 'api'].map((role) => `{ role: ${role}, count: 10 }`).join(', ')}]`,
  )
  const [host] = planOf(readDeployment(text, 'three.yaml')).regions[0]?.hosts ?? []
  const ports = host?.processes.flatMap(({ ports }) => Object.values(ports)) ?? []
  t.equal(host?.processes.length, 40)
  t.equal(new Set([...ports, 4222, 6222, 7222, 8222, 9042, 7000, 9090, 9093]).size, ports.length + 8)
})

t.test('a fault names its line and field, and all are found at once', async (t) => {
  const faultsOf = (text: string) => {
    try {
      readDeployment(text, 'x.yaml')
      return []
    } catch (error) {
      return (error as DeploymentFault).message.split('\n')
    }
  }
  const changed = (from: string | RegExp, to: string) => faultsOf(three.replace(from, to))
  const twice = (role: string) => changed('roles: [nats,', `roles: [${role}, ${role}, nats,`)
  const lineOf = (text: string) => three.split('\n').findIndex((line) => line.includes(text)) + 1
  t.strictSame(faultsOf(three), [])
  t.match(changed('rack: r1', 'rakc: r1'), [
    `x.yaml:${lineOf('rack: r1')}: regions[0].hosts[0].rakc is unknown; known fields are name, address`,
  ])
  t.match(changed('code: na-nyc', 'code: na-nic'), [
    `x.yaml:${lineOf('code: na-nyc')}: regions[1].code must be one of eu-par, na-phx`,
  ])
  t.match(changed('proxy: caddy', 'proxy: apache').concat(changed('replicas: 3', 'replicas: many')), [
    `x.yaml:${lineOf('proxy: caddy')}: proxy must be one of caddy, nginx, but is "apache"`,
    `x.yaml:${lineOf('replicas: 3')}: replicas must be a whole number from 1 to 9, but is "many"`,
  ])
  const setting = `x.yaml:${lineOf('HOLDFAST_MAIL_FROM')}: settings.`
  t.match(changed('HOLDFAST_MAIL_FROM', 'HOLDFAST_MAIL_FORM'), [`${setting}HOLDFAST_MAIL_FORM is no setting`])
  t.match(changed('HOLDFAST_MAIL_FROM', 'HOLDFAST_CLUSTER_SECRET'), [/is a secret/])
  for (const name of ['HOLDFAST_SMTP_URL', 'HOLDFAST_SMTP_URL_FILE'])
    t.match(changed('HOLDFAST_MAIL_FROM', name), [
      /is a secret; write mail: relay, and the URL into the secret smtp-url of the hosts/,
    ])
  t.match(changed('HOLDFAST_MAIL_FROM', 'HOLDFAST_ADMIN_TOKEN_FILE'), [/is a secret; it belongs/])
  t.match(changed('HOLDFAST_MAIL_FROM', 'HOLDFAST_NODE_NAME'), [/follows from the hosts/])
  t.match(changed('Files <no-reply@files.example>', 'no address'), [/HOLDFAST_MAIL_FROM .*mail address/])
  t.match(changed('Files <no-reply@files.example>', '"a@b $(reboot)"'), [/without quotes/])
  t.match(changed('name: par2', 'name: par1'), [/name the host par1 twice/])
  for (const taken of ['eu-par', 'na-phx', 'client-eu-par'])
    t.match(changed('name: par2', `name: ${taken}`), [new RegExp(`name is ${taken}, like a region`)])
  t.match(changed('internal: 10.1.0.12', 'internal: 10.1.0.11'), [/internal address 10.1.0.11 twice/])
  for (const open of ['0.0.0.0', '192.0.2.12'])
    t.match(changed('internal: 10.1.0.12', `internal: ${open}`), [
      new RegExp(`^x.yaml:\\d+: regions\\[0\\].hosts\\[1\\] par2 has the internal address ${open}, on which`),
    ])
  t.match(changed('internal: 10.1.0.12', 'internal: 127.0.0.2'), [/where no other host reaches it$/])
  t.match(changed('internal: 10.1.0.12', 'internal: 203.0.113.12'), [/203.0.113.12, on which everybody/])
  for (const own of ['172.16.0.9', '192.168.7.1', '100.64.0.1'])
    t.strictSame(changed('internal: 10.1.0.12', `internal: ${own}`), [], own)
  const roles = ['[standalone', '[nats, cassandra, actor-host, storage-node, upload, api'] as const
  const single = textOf('one.yaml').replace('regions:', 'replicas: 1\nregions:')
  for (const [internal, ofStandalone, ofCluster] of [
    ['127.0.0.1', [], []],
    ['203.0.113.9', [], [/files1 has the internal address 203.0.113.9, on which everybody/]],
  ] as const) {
    const text = single.replace(/internal: \S+/, `internal: ${internal}`)
    t.strictSame(faultsOf(text), ofStandalone)
    t.match(faultsOf(text.replace(...roles)), ofCluster)
  }
  for (const none of ['0.0.0.0', '127.0.0.1', '169.254.0.9', '224.0.0.9', '255.255.255.255'])
    t.match(changed(/address: 192.0.2.11/, `address: ${none}`), [
      /address must be the IPv4 address at which users reach the host/,
    ])
  for (const none of ['::', '0:0::0', '::1', '::ffff:192.0.2.1', 'FE80::1', 'ff02::1', '::1%lo', '2001::g'])
    t.match(changed(/address6: \S+/, `address6: "${none}"`), [
      /address6 must be the IPv6 address at which users/,
    ])
  for (const none of ['hostmaster@..', '.a@files.example', 'a..b@files.example', 'a@files'])
    t.match(changed(/contact: \S+/, `contact: ${none}`), [/contact must be a mail address/])
  for (const [none, why] of [
    ['par2-', 'between them, -, but is "par2-"'],
    ['2', 'but is 2, a number: write it in quotes'],
  ] as const)
    t.match(changed('name: par2', `name: ${none}`), [new RegExp(`name must be a name of .*${why}`)])
  const from = 'HOLDFAST_MAIL_FROM: Files'
  t.strictSame(changed(from, `HOLDFAST_UNDO_SECONDS: 0\n  ${from}`), [], 'a value may be a number')
  t.match(changed('address6: 2001:db8:1::2', 'address6: 2001:DB8:1:0::1'), [
    /name the address 2001:db8:1::1 twice/,
  ])
  t.match(twice('nats').slice(0, 1), [/roles names nats twice, but a host runs one$/])
  t.match(twice('api'), [/names api twice; write \{role: api, count: 2\}/])
  for (const role of ['cassandra', 'nats'])
    t.match(changed(`${role},`, `{ role: ${role}, data: [/srv/nvme], settings: {} },`), [
      new RegExp(`roles\\[\\d\\].data does not apply to ${role}; processes of Holdfast have it`),
      /settings does not apply/,
    ])
  const proxyAlone = '{ name: files2, address: 192.0.2.11, internal: 10.0.0.11, roles: [proxy] }'
  t.match(faultsOf(`${textOf('one.yaml')}  - { code: na-nyc, hosts: [${proxyAlone}] }\n`), [
    /regions are 2, but the role standalone serves one/,
  ])
  t.match(faultsOf(textOf('one.yaml').replace(/^settings:\n/m, '$&  HOLDFAST_ADMIN_TLS: required\n')), [
    /regions have the role standalone, which has no setting HOLDFAST_ADMIN_TLS/,
  ])
  const mixed = '{ role: api, settings: { HOLDFAST_FRONTEND_TLS: off } }'
  t.match(changed('upload, api, proxy]', `upload, ${mixed}, proxy]`), [
    /regions\[0\] has processes of the role api with HOLDFAST_FRONTEND_TLS (off and required|required and off): .*\(eu-par\)/,
  ])
  for (const [data, why] of [
    ...[
      ...['/etc/holdfast/disk', '/var', '/var/lib/holdfast/disk', '/home/disk', '/opt', '/boot', '/root'],
      ...['/mnt', '/media'],
    ].map(
      (path) => [path, new RegExp(`roles have the directory ${path}, a folder of the system; `)] as const,
    ),
    ['/srv/../etc', /write it without \. and \.\./],
    ['/srv/disk1/two', /have the directory \/srv\/disk1\/two inside of \/srv\/disk1$/],
  ] as const)
    t.match(faultsOf(textOf('three-hosts.yaml').replace('/srv/disk2', data)).slice(0, 1), [why])
  for (const data of ['/disk2', '/data/two', '/mnt/disk2', '/media/two', '/srv2'])
    t.strictSame(faultsOf(textOf('three-hosts.yaml').replace('/srv/disk2', data)), [], data)
  t.match(changed(/nameservers: .*/, 'nameservers: [ns1.files.example]'), [
    /nameservers\[0\] is ns1.files.example, inside of the zone files.example, which has no address of it/,
  ])
  t.match(changed('replicas: 3', 'replicas: 4').length, 3, 'each region has three Cassandra nodes')
  const racked = (racks: string[], replicas: number) => {
    const node = (rack: string, at: number) =>
      `      - { name: n${at}, internal: 10.1.0.${20 + at}, rack: ${rack}, roles: [cassandra] }\n`
    return faultsOf(
      textOf('three-hosts.yaml')
        .replace('regions:', `replicas: ${replicas}\nregions:`)
        .replaceAll(/^ +(- cassandra|cassandra,)\n/gm, '')
        .concat(racks.map(node).join('')),
    )
  }
  for (const [racks, replicas, node] of [
    [['r1', 'r2', 'r1'], 3, 'n2'],
    [['r1', 'r1', 'r2', 'r2'], 3, 'n3'],
    [['r1', 'r2', 'r1', 'r3'], 3, 'n2'],
  ] as const)
    t.match(racked([...racks], replicas), [
      new RegExp(`^x.yaml:\\d+: regions\\[0\\] has the Cassandra node ${node}, .* 2 racks .* 3 replicas`),
    ])
  for (const [racks, replicas] of [
    [['r1', 'r1', 'r1', 'r1'], 3],
    [['r1', 'r2', 'r3', 'r1', 'r4', 'r1'], 3],
    [['r1', 'r2', 'r1', 'r2'], 2],
    [['r1', 'r2', 'r1'], 1],
  ] as const)
    t.strictSame(racked([...racks], replicas), [], `${racks} for ${replicas} replicas`)
  t.match(changed('domain: files.example', 'domain: "files.example; rm"'), [/domain must be a domain name/])
  t.match(changed('alerts:', 'alerts: {}\nalerts:'), [/x.yaml:\d+: .*unique/], 'of YAML itself')
  t.match(faultsOf('deployment: [\n'), [/^x.yaml:\d+: /])
  t.match(faultsOf(''), [/x.yaml:1: must be a map, but is empty/])
  t.match(faultsOf('deployment: x\nregions: []\n'), [
    /1: domain is missing/,
    /2: regions must name one to 8 regions, but names 0/,
    /nameservers is missing/,
  ])
})

t.test('no two copies at home are on one host', async (t) => {
  for (const name of examples)
    for (const { code, hosts } of planOf(deploymentOf(name)).regions) {
      const hostOf = new Map(
        hosts.flatMap((host) =>
          host.processes.filter(({ role }) => role === 'storage-node').map((node) => [node.name, host.name]),
        ),
      )
      const nodes = [...hostOf.keys()].map((id) => ({
        id,
        region: code,
        machine: undefined,
        ready: true,
        lost: false,
        draining: false,
        freeBytes: 1,
      }))
      for (const { members } of planGroups({ region: code, regions: [code], nodes, groups: [] }))
        t.equal(new Set(members.map((id) => hostOf.get(id))).size, 2, `${name}: ${members}`)
    }
})

t.test('every region has its upload and download hosts in DNS and behind its proxies', async (t) => {
  const deployment = deploymentOf('eight.yaml')
  const files = render(deployment)
  for (const { code, names, hosts } of planOf(deployment).regions) {
    t.equal(names.regionalUpload, `upload-${code}.files.example`)
    for (const { name, address } of hostsWith(hosts, 'proxy')) {
      const config = files.get(`hosts/${name}/etc/nginx/conf.d/holdfast.conf`) ?? ''
      t.match(config, `server_name upload.files.example upload-${code}.files.example;`)
      t.match(config, `download-${code}.files-content.example;`)
      t.match(files.get('dns/files.example.zone'), `upload-${code}.files.example. IN A ${address}\n`)
      t.match(
        files.get('dns/files-content.example.zone'),
        `download-${code}.files-content.example. IN A ${address}\n`,
      )
    }
    for (const { ports, settings } of hosts.flatMap(({ processes }) => processes))
      for (const { name } of hostsWith(hosts, 'proxy'))
        t.notOk(
          files
            .get(`hosts/${name}/etc/nginx/conf.d/holdfast.conf`)
            ?.includes(`${settings.HOLDFAST_BIND}:${ports.admin}`),
          'no admin host behind a proxy',
        )
  }
  const { Changes } = JSON.parse(files.get('dns/files.example.latency.json') ?? '') as {
    Changes: { ResourceRecordSet: { Name: string; Region?: string; SetIdentifier?: string } }[]
  }
  const upload = Changes.map((change) => change.ResourceRecordSet).filter(
    ({ Name }) => Name === 'upload.files.example.',
  )
  t.equal(new Set(upload.map(({ Region }) => Region)).size, 8, 'a place of its own for each region')
})

t.test('records of Route 53 name the check of their region, where it has one', async (t) => {
  const id = '0123abcd-0000-4000-8000-00000000abcd'
  const checked = three.replace('code: na-nyc', `code: na-nyc\n    health-check: ${id}`)
  const files = render(readDeployment(checked, 'x.yaml'))
  const { Changes } = JSON.parse(files.get('dns/files.example.latency.json') ?? '') as {
    Changes: { ResourceRecordSet: { Name: string; SetIdentifier?: string; HealthCheckId?: string } }[]
  }
  const checks = Changes.flatMap(({ ResourceRecordSet: { Name, SetIdentifier, HealthCheckId } }) =>
    HealthCheckId === undefined ? [] : `${SetIdentifier} ${HealthCheckId} ${Name}`,
  )
  const names = ['files', 'api.files', 'upload.files'].map((name) => `${name}.example.`)
  t.strictSame(new Set(checks), new Set(names.map((name) => `na-nyc ${id} ${name}`)), 'not its own host')
  const config = JSON.parse(files.get('dns/na-nyc.health-check.json') ?? '')
  t.equal(config.FullyQualifiedDomainName, 'upload-na-nyc.files.example')
  t.notOk(render(deploymentOf('one.yaml')).has('dns/eu-par.health-check.json'))
  t.throws(() => readDeployment(three.replace('code: na-nyc', 'code: na-nyc\n    health-check: x'), 'x.yaml'))
})

t.test('a region that users with one version of IP alone do not reach is a warning', async (t) => {
  const warnings = (text: string) => warningsOf(planOf(readDeployment(text, 'x.yaml')))
  for (const name of examples) t.strictSame(warnings(textOf(name)), [], name)
  t.match(warnings(three.replace(/ +address6: 2001:db8:[23].*\n/g, '')), [
    /^na-nyc, ap-sgp: no proxy has address6, so users with IPv6 alone/,
  ])
  t.match(warnings(three.replace(/ +address: .*\n/g, '')), [
    /^no proxy has address, so users with IPv4 alone/,
  ])
})

t.test('a deployment whose alerts reach no person is a warning', async (t) => {
  const warnings = (text: string) => warningsOf(planOf(readDeployment(text, 'x.yaml')))
  const hosts = textOf('three-hosts.yaml')
  t.strictSame(warnings(hosts.replace(/^alerts:.*/m, '')), ['alerts.page is missing: no alert wakes anybody'])
  t.match(warnings(hosts.replace('- alertmanager', '')), [/^no host has the role alertmanager/])
  t.match(warnings(three.replace('-{region}', '')), [/^alerts.watchdog has no \{region\}/])
  t.match(warnings(hosts.replace('- prometheus', '')), [/^eu-par: no host has the role prometheus/])
})

t.test('a deployment that does not say where its mails go is a warning', async (t) => {
  const text = three.replace(/^mail: .*\n/m, '')
  t.match(warningsOf(planOf(readDeployment(text, 'x.yaml'))), [/^mail is missing: mails with sign-in links/])
})

t.test('each region has a watchdog of its own outside', async (t) => {
  const files = render(deploymentOf('three.yaml'))
  const text = files.get('hosts/par3/etc/prometheus/alertmanager.yml') ?? ''
  const { route, receivers } = parse(text) as {
    route: { routes: { matchers: string[]; receiver: string }[] }
    receivers: { name: string; webhook_configs?: { url: string }[] }[]
  }
  const called = route.routes
    .filter(({ matchers }) => matchers.includes('alertname="HoldfastWatchdog"'))
    .map(({ matchers, receiver }) => [
      matchers.at(-1),
      receivers.find(({ name }) => name === receiver)?.webhook_configs?.[0]?.url,
    ])
  t.strictSame(
    called,
    ['eu-par', 'na-nyc', 'ap-sgp'].map((code) => [`region="${code}"`, `https://watch.example/ping-${code}`]),
  )
})

t.test('units have a place for compiled modules, which the code is not', async (t) => {
  const files = render(deploymentOf('three.yaml'))
  for (const [path, text] of files)
    if (path.endsWith('.service'))
      t.equal(
        /^CacheDirectory=holdfast\nCacheDirectoryMode=0700$/m.test(text),
        text.includes('/infra/launch.sh'),
        path,
      )
})

t.test('a disk of its own is mounted before its process starts', async (t) => {
  const files = render(deploymentOf('three-hosts.yaml'))
  const unit = (name: string) => files.get(`hosts/par1/etc/systemd/system/holdfast-${name}-par1.service`)
  t.match(unit('storage-2'), '\nRequiresMountsFor=/srv/disk2\n')
  t.notMatch(unit('actor-1'), 'RequiresMountsFor')
  const pods = files.get('kubernetes/eu-par/par1/processes.yaml') ?? ''
  t.match(pods, /path: \/srv\/disk2\s+type: Directory\n/, 'Kubernetes makes none either')
  t.match(pods, /command:\s+- sh\s+- -ec\s+- chown 1000:1000 \/srv\/disk2; chmod 700 \/srv\/disk2\n/)
  t.match(pods, /livenessProbe:\s+httpGet:\s+scheme: HTTPS\s+host: 10.1.0.11\s+port: 8089\s+path: \/livez\n/)
})

t.test('Prometheus of a region scrapes all of its servers that have metrics', async (t) => {
  const jobsOf = (text: string, host: string) => {
    const files = render(readDeployment(text, 'x.yaml'))
    const { scrape_configs } = parse(files.get(`hosts/${host}/etc/prometheus/prometheus.yml`) ?? '') as {
      scrape_configs: { job_name: string; static_configs: { targets: string[] }[] }[]
    }
    return Object.fromEntries(
      scrape_configs.map((job) => [job.job_name, job.static_configs.flatMap(({ targets }) => targets)]),
    )
  }
  const withExporters = three.replace('proxy: caddy', 'proxy: caddy\nexporters: [nats, cassandra]')
  const { holdfast, ...servers } = jobsOf(withExporters, 'par3')
  t.equal(holdfast?.length, 9)
  t.strictSame(servers, {
    prometheus: ['127.0.0.1:9090'],
    alertmanager: ['10.1.0.13:9093'],
    nats: ['10.1.0.11:7777', '10.1.0.12:7777', '10.1.0.13:7777'],
    cassandra: ['10.1.0.11:7070', '10.1.0.12:7070', '10.1.0.13:7070'],
    proxy: ['10.1.0.11:2020', '10.1.0.12:2020'],
  })
  const nginx = jobsOf(three.replace('proxy: caddy', 'proxy: nginx'), 'par3')
  t.strictSame(Object.keys(nginx), ['holdfast', 'prometheus', 'alertmanager', 'proxy'])
  const twice = jobsOf(withExporters.replace('[nats, cassandra]', '[nats, nats]'), 'par3')
  t.strictSame(
    Object.keys(twice),
    ['holdfast', 'prometheus', 'alertmanager', 'nats', 'proxy'],
    'no job twice',
  )
  t.throws(() => jobsOf(withExporters.replace('[nats, cassandra]', '[caddy]'), 'par3'), {
    message: /exporters\[0\] must be one of nats, cassandra/,
  })
})

t.test('Prometheus on another host than the role standalone reaches it', async (t) => {
  const observer = '{ name: files2, internal: 10.0.0.11, roles: [prometheus, alertmanager] }'
  const apart = textOf('one.yaml').replace(', prometheus, alertmanager]', `]\n      - ${observer}`)
  for (const [text, at, admin] of [
    [apart, 'files2', '10.0.0.10'],
    [textOf('one.yaml'), 'files1', '127.0.0.1'],
  ] as const) {
    const files = render(readDeployment(text, 'x.yaml'))
    const settings = files.get('hosts/files1/etc/holdfast/files1-holdfast.env')
    t.match(settings, `\nHOLDFAST_ADMIN_BIND=${admin}\n`)
    t.match(settings, '\nHOLDFAST_BIND=127.0.0.1\n', 'its proxy is near')
    t.match(files.get(`hosts/${at}/etc/prometheus/prometheus.yml`), `- ${admin}:8090\n`)
  }
})

t.test('Prometheus has the token of metrics alone, and each process knows it', async (t) => {
  for (const name of examples) {
    const files = render(deploymentOf(name))
    for (const [path, text] of files) {
      if (path.endsWith('/prometheus.yml')) {
        t.match(text, 'credentials_file: /etc/holdfast/secrets/metrics-token\n')
        t.notMatch(text, 'admin-token')
      }
      if (/\/hosts\/.*\/etc\/holdfast\/[\w-]+\.env$/.test(`/${path}`))
        t.match(text, '\nHOLDFAST_METRICS_TOKEN_FILE=/etc/holdfast/secrets/metrics-token\n', path)
    }
  }
})

t.test('no user reads the secret of another one, and a proxy those of the cluster', async (t) => {
  const readers = (host: string, text = three) => {
    const work = workOf(readDeployment(text, 'x.yaml')).find((one) => one.host.name === host)
    const script = work === undefined ? '' : upScript(work, 'servers')
    return Object.fromEntries(
      [...script.matchAll(/^own (\S+) 640 \/etc\/holdfast\/(?:secrets|tls)\/(\S+)$/gm)].map(
        ([, users, name]) => [name, users],
      ),
    )
  }
  const ours = ['admin-token', 'metrics-token', 'cluster-secret', 'nats-password', 'cassandra-password']
  const everywhere = {
    ...Object.fromEntries([...ours, 'nats-users.conf', 'node.key'].map((name) => [name, 'root:holdfast'])),
    'cassandra-admin-password': 'root:root',
    'cassandra.pem': 'root:cassandra',
    'internode.pem': 'root:cassandra',
  }
  t.same(readers('par1'), { ...everywhere, 'proxy.key': 'root:caddy', 'public.key': 'root:caddy' })
  t.same(readers('par3'), {
    ...everywhere,
    'metrics-token': 'prometheus:holdfast',
    'prometheus.key': 'root:prometheus',
  })
  t.match(readers('par1', three.replace('proxy: caddy', 'proxy: nginx')), { 'public.key': 'root:root' })
  const disks = workOf(deploymentOf('three-hosts.yaml')).map((work) => upScript(work, 'processes'))
  t.match(disks[0], '! mountpoint -q "$root/srv/disk1" || own holdfast:holdfast 700 /srv/disk1\n')
})

t.test('processes with accounts get the URL of the relay for mails, and no others', async (t) => {
  const place = '/etc/holdfast/secrets/smtp-url'
  const relayed = three.replace('mail: outbox', 'mail: relay')
  for (const [text, hosts] of [
    [relayed, ['par1', 'par2', 'nyc1', 'nyc2', 'sgp1', 'sgp2']],
    [textOf('one.yaml'), ['files1']],
    [three, []],
  ] as const) {
    const deployment = readDeployment(text, 'x.yaml')
    const knowing = planOf(deployment).regions.flatMap((region) =>
      region.hosts.flatMap(({ name, processes }) =>
        processes.flatMap(({ role, settings }) =>
          settings.HOLDFAST_SMTP_URL_FILE === place ? `${name} ${role}` : [],
        ),
      ),
    )
    const role = text === relayed ? 'actor-host' : 'standalone'
    t.strictSame(
      knowing,
      hosts.map((host) => `${host} ${role}`),
    )
    const needing = workOf(deployment).filter((work) => needsOf(work).includes(place))
    t.strictSame(
      needing.map(({ host }) => host.name),
      hosts,
      'up names it where it is missing',
    )
    for (const work of needing) t.match(upScript(work, 'servers'), `\nown root:holdfast 640 ${place}\n`)
  }
  const files = render(readDeployment(relayed, 'x.yaml'))
  const { services } = parse(files.get('hosts/par1/etc/holdfast/compose.yaml') ?? '')
  const inCompose = Object.entries<{ volumes: { source: string }[] }>(services).flatMap(
    ([name, { volumes }]) => (volumes.some(({ source }) => source === place) ? name : []),
  )
  t.strictSame(inCompose, ['actor-1-par1'])
  const pods = parseAllDocuments(files.get('kubernetes/eu-par/par1/processes.yaml') ?? '')
  const inPods = pods.filter((pod) => String(pod).includes('- key: smtp-url')).map((pod) => pod.toJS())
  t.match(inPods, [{ metadata: { name: 'actor-1-par1' } }])
  t.equal(inPods.length, 1)
})

t.test('a container sees only the secrets that its process reads', async (t) => {
  const files = render(deploymentOf('three.yaml'))
  interface Bind {
    source: string
    bind: { create_host_path: boolean }
  }
  const compose = parse(files.get('hosts/par1/etc/holdfast/compose.yaml') ?? '') as {
    services: Record<string, { volumes: Bind[] }>
  }
  const inCompose = Object.entries(compose.services).map(([name, { volumes }]) => {
    const secrets = volumes.filter(({ source }) => /^\/etc\/holdfast\/(secrets|tls)/.test(source))
    t.ok(secrets.every(({ bind }) => !bind.create_host_path))
    return [name, secrets.map(({ source }) => source.slice('/etc/holdfast/'.length)).sort()]
  })
  const pods = parseAllDocuments(files.get('kubernetes/eu-par/par1/processes.yaml') ?? '').map(
    (one) =>
      one.toJS() as {
        metadata: { name: string }
        spec: {
          template: {
            spec: {
              containers: { volumeMounts: { name: string; mountPath: string }[] }[]
              volumes: {
                name: string
                secret?: { secretName: string; defaultMode: number; items: { key: string; path: string }[] }
              }[]
            }
          }
        }
      },
  )
  const inPods = pods.map(({ metadata, spec }) => [
    metadata.name,
    spec.template.spec.volumes
      .flatMap(({ name, secret }) => {
        if (secret === undefined) return []
        t.equal(secret.defaultMode, 0o440)
        t.equal(secret.secretName, name === 'tls' ? 'holdfast-tls-par1' : 'holdfast-secrets')
        const [main] = spec.template.spec.containers
        const place = main?.volumeMounts.find((mount) => mount.name === name)?.mountPath
        return secret.items.map(({ path }) => `${place}/${path}`.slice('/etc/holdfast/'.length))
      })
      .sort(),
  ])
  const names = ['admin-token', 'metrics-token', 'cluster-secret', 'nats-password', 'cassandra-password']
  const ours = names.map((name) => `secrets/${name}`)
  const [ca, node] = ['tls/ca.pem', ['tls/node.key', 'tls/node.pem']]
  const wanted: Record<string, string[]> = {
    folders: [],
    'par1-cassandra': [ca, 'tls/cassandra-ca.pem', 'tls/cassandra.pem', 'tls/internode.pem'],
    'par1-nats': ['secrets/nats-routes.conf', 'secrets/nats-users.conf', ca, ...node],
  }
  for (const [name, secrets] of inCompose.concat(inPods))
    t.strictSame(secrets, wanted[String(name)] ?? [...ours, ca, ...node].sort(), String(name))
  t.notMatch([...files.values()].join('\n'), /(key|source): \S*cassandra-admin-password/)
})

t.test('containers start with their host, and find folders of their users', async (t) => {
  const files = render(deploymentOf('three-hosts.yaml'))
  const { folders, ...services } = parse(files.get('hosts/par1/etc/holdfast/compose.yaml') ?? '').services
  for (const [name, service] of Object.entries<Record<string, unknown>>(services)) {
    t.equal(service.restart, 'unless-stopped', name)
    const server = /-(nats|cassandra)$/.test(name)
    t.match(service, server ? {} : { healthcheck: { test: ['CMD', 'infra/deploy/healthy.sh'] } })
    t.equal('healthcheck' in service, !server, name)
    const waits = !/^storage|-nats$/.test(name)
    t.same(
      service.depends_on,
      waits ? { folders: { condition: 'service_completed_successfully' } } : undefined,
    )
  }
  t.match(folders, { user: 'root', cap_drop: ['ALL'], cap_add: ['CHOWN', 'FOWNER'] })
  const own = `\${SERVICE_UID:-1000}:\${SERVICE_GID:-1000}`
  const [cassandra, actors] = ['/var/lib/cassandra', '/var/lib/holdfast/actor-1-par1']
  t.match(folders.entrypoint, [
    'sh',
    '-ec',
    `chown 999:999 ${cassandra}; chmod 700 ${cassandra}; chown ${own} ${actors}; chmod 700 ${actors}; `,
  ])
  t.notOk('restart' in folders, 'it ends')
  t.notMatch(JSON.stringify(folders), '/srv/disk', 'a disk that is not mounted stays root’s')
  t.ok(folders.volumes.every(({ bind }: { bind: { create_host_path: boolean } }) => bind.create_host_path))
})

t.test('pods restart one by one, have time for their start, and memory for their heaps', async (t) => {
  const text = three.replace('HOLDFAST_MAIL_FROM', 'HOLDFAST_ACCOUNT_MEMORY: 1GiB\n  HOLDFAST_MAIL_FROM')
  const files = render(readDeployment(text, 'three.yaml'))
  interface Main {
    env: { name: string; value: string }[]
    resources: { requests: { memory: string }; limits: { memory: string } }
    startupProbe: { periodSeconds: number; failureThreshold: number }
  }
  const pods = parseAllDocuments(files.get('kubernetes/eu-par/par1/processes.yaml') ?? '').map((one) => {
    const { metadata, spec } = one.toJS()
    t.strictSame(spec.updateStrategy, { type: 'OnDelete' }, metadata.name)
    t.equal(spec.template.spec.enableServiceLinks, false, 'no variables of Services')
    for (const { command, securityContext } of spec.template.spec.initContainers ?? []) {
      t.match(command[2], /^chown (\d+):\1 (\S+); chmod 700 \2$/, 'no other user of the node reads the data')
      t.same(securityContext.capabilities.add, ['CHOWN', 'FOWNER'])
    }
    const [main] = spec.template.spec.containers as [Main]
    const { periodSeconds, failureThreshold } = main.startupProbe
    const { requests, limits } = main.resources
    const environment = main.env.map(({ name, value }) => `${name}=${value}`).join()
    return [metadata.name, periodSeconds * failureThreshold, environment, requests.memory, limits.memory]
  })
  const own = (heap: number) => [
    ...[300, `NODE_OPTIONS=--max-old-space-size=${heap}`],
    ...[`${heap + 64}Mi`, `${heap + 64 + 768}Mi`],
  ]
  t.strictSame(pods, [
    ['par1-cassandra', 86_400, 'MAX_HEAP_SIZE=4G', '6144Mi', '8192Mi'],
    ['par1-nats', 300, 'GOMEMLIMIT=768MiB', '256Mi', '1024Mi'],
    // Loaded accounts have a sixth of the heap.
    ['actor-1-par1', ...own(6 * 1024)],
    ...['storage', 'upload', 'api'].map((role) => [`${role}-1-par1`, ...own(768)]),
  ])
})

t.test("the site that Debian's nginx enables does not disturb ours", async (t) => {
  const files = render(readDeployment(three.replace('proxy: caddy', 'proxy: nginx'), 'x.yaml'))
  const config = files.get('hosts/par1/etc/nginx/conf.d/holdfast.conf') ?? ''
  t.match(config, / listen 80;\n +listen \[::\]:80;\n +server_name files.example api.files.example /)
  t.notMatch(config, /:?80 default_server/, 'it has the default of port 80')
})

t.test('proxies ask frontends by TLS when the settings say so, except of a single host', async (t) => {
  const proxied = (text: string, host: string, proxy: 'caddy' | 'nginx', more = '') => {
    const given = text
      .replace(/^proxy: \w+$/m, `proxy: ${proxy}`)
      .replace(/^settings:.*\n/m, (line) =>
        more === '' ? line : `${line}  HOLDFAST_FRONTEND_TLS: ${more}\n`,
      )
    const files = render(readDeployment(given, 'x.yaml'))
    return [
      files.get(`hosts/${host}/etc/holdfast/api-1-${host}.env`) ?? '',
      files.get(`hosts/${host}/etc/nginx/conf.d/holdfast.conf`) ??
        files.get(`hosts/${host}/etc/caddy/Caddyfile`) ??
        '',
    ] as const
  }
  const secured = {
    caddy: /tls_client_auth [^}]*tls_server_name frontend\./,
    nginx: /https:\/\/holdfast_api;/,
  }
  for (const proxy of ['caddy', 'nginx'] as const) {
    for (const [setting, isTls] of [
      ['', true],
      ['preferred', true],
      ['offered', false],
      ['off', false],
    ] as const) {
      const [env, config] = proxied(three, 'par1', proxy, setting)
      t.match(env, `\nHOLDFAST_FRONTEND_TLS=${setting || 'required'}\n`)
      t.equal(secured[proxy].test(config), isTls, `${proxy}, ${setting || 'no setting'}`)
    }
  }
  const alone = render(deploymentOf('one.yaml'))
  t.notMatch(alone.get('hosts/files1/etc/caddy/Caddyfile'), 'tls_')
  for (const [path, text] of alone) t.notMatch(text, 'HOLDFAST_FRONTEND_TLS', path)
})

t.test('Prometheus and probes ask admin hosts by TLS when the settings say so', async (t) => {
  interface Scraped {
    scrape_configs: {
      job_name: string
      tls_config?: object
      static_configs: { labels: Record<string, string> }[]
    }[]
  }
  const authority = { ca_file: '/etc/holdfast/tls/ca.pem' }
  for (const [setting, isTls] of [
    ['', true],
    ['preferred', true],
    ['offered', false],
    ['off', false],
  ] as const) {
    const given = three.replace(/^settings:.*\n/m, (line) =>
      setting === '' ? line : `${line}  HOLDFAST_ADMIN_TLS: ${setting}\n`,
    )
    const files = render(readDeployment(given, 'x.yaml'))
    t.match(
      files.get('hosts/par1/etc/holdfast/actor-1-par1.env'),
      `\nHOLDFAST_ADMIN_TLS=${setting || 'required'}\n`,
    )
    const { scrape_configs: jobs } = parse(
      files.get('hosts/par3/etc/prometheus/prometheus.yml') ?? '',
    ) as Scraped
    const ours = jobs.find(({ job_name: name }) => name === 'holdfast')
    t.strictSame(ours?.tls_config, isTls ? authority : undefined, setting)
    for (const { labels } of ours?.static_configs ?? [])
      t.equal(labels.__scheme__, isTls ? 'https' : undefined, `${setting} ${labels.process}`)
    const probe = /httpGet:\n +scheme: HTTPS\n/
    t.equal(probe.test(files.get('kubernetes/eu-par/par1/processes.yaml') ?? ''), isTls, setting)
  }
  for (const [path, text] of render(deploymentOf('one.yaml')))
    t.notMatch(text, /HOLDFAST_ADMIN_TLS|__scheme__|scheme: HTTPS/, path)
})

t.test('one process of each region reads the certificates that users see', async (t) => {
  for (const name of examples)
    for (const { code, hosts, names } of planOf(deploymentOf(name)).regions) {
      const lists = hosts.flatMap(({ processes }) =>
        processes.flatMap(({ settings }) => settings.HOLDFAST_CERTIFICATE_HOSTS ?? []),
      )
      t.equal(lists.length, 1, `${name} ${code}`)
      t.same(new Set(lists[0]?.split(',')), new Set(Object.values(names)))
    }
})

t.test('the same process reads the certificates that servers of its region have loaded', async (t) => {
  const read = (text: string) =>
    planOf(readDeployment(text, 'x.yaml')).regions.map(({ hosts }) =>
      hosts.flatMap(({ processes }) =>
        processes.flatMap(({ name, settings }) =>
          settings.HOLDFAST_CERTIFICATE_SERVERS === undefined
            ? []
            : [[name, settings.HOLDFAST_CERTIFICATE_SERVERS.split(',')] as const],
        ),
      ),
    )
  const expected = (region: string, network: string) => [
    [
      `api-1-${region}1`,
      [
        ...[11, 12, 13].map((host) => `nats://${network}.${host}:4222`),
        ...[11, 12, 13].flatMap((host) =>
          [9042, 7000].map((port) => `cassandra://${network}.${host}:${port}`),
        ),
        ...[11, 12].map((host) => `tls://${network}.${host}:2020`),
        ...[9093, 9094].map((port) => `tls://${network}.13:${port}`),
      ],
    ],
  ]
  t.same(read(three), [expected('par', '10.1.0'), expected('nyc', '10.2.0'), expected('sgp', '10.3.0')])
  const proxy = '      - { name: front1, address: 192.0.2.11, internal: 10.0.0.11, roles: [proxy] }\n'
  const beside = ['tls://10.0.0.10:2020', 'tls://10.0.0.11:2020', 'tls://10.0.0.10:9093']
  t.same(read(textOf('one.yaml') + proxy), [[['files1-holdfast', beside]]], 'standalone')
  const cluster = textOf('one.yaml')
    .replace('regions:', 'replicas: 1\nregions:')
    .replace('[standalone,', '[nats, cassandra, actor-host, storage-node, upload, api,')
  const address = textOf('one.yaml').match(/internal: ([\d.]+)/)?.[1]
  const own = [`nats://${address}:4222`, `cassandra://${address}:9042`, `cassandra://${address}:7000`]
  t.same(read(cluster), [[['api-1-files1', own]]], 'a single host: the others have no TLS')
})

t.test('Cassandra gets its users between the servers and the processes', async (t) => {
  const deployment = deploymentOf('three.yaml')
  const all = workOf(deployment)
  const at = loginsHost(all)
  t.equal(at?.host.name, 'par1')
  for (const work of all)
    t.ok(needsOf(work).includes(operatorPasswordFile), `${work.host.name} runs Cassandra`)
  t.equal(loginsHost(workOf(deploymentOf('one.yaml'))), undefined)
  const apart = three
    .replace('replicas: 3', 'replicas: 1')
    .replaceAll('roles: [nats, cassandra, actor-host', 'roles: [nats, actor-host')
    .replace('roles: [nats, cassandra, storage-node', 'roles: [nats, cassandra')
  const first = workOf(readDeployment(apart, 'apart.yaml'))
  t.equal(loginsHost(first)?.host.name, 'par1', 'it has no Cassandra')
  t.same(
    first.filter((work) => needsOf(work).includes(operatorPasswordFile)).map(({ host }) => host.name),
    ['par1', 'par3', 'nyc3', 'sgp3'],
  )
  const [, json = ''] = /<<'END'\n(.*)\nEND\n/.exec(at ? loginsScript(deployment, at, 'make') : '') ?? []
  t.match(JSON.parse(json), {
    contactPoints: ['10.1.0.11', '10.1.0.12', '10.1.0.13'],
    dataCentre: 'eu-par',
    replication: { 'eu-par': 3, 'na-nyc': 3, 'ap-sgp': 3 },
  })
  t.same(
    loginsRepairs(deployment, all).map(({ work }) => work.host.name),
    ['par1'],
    'one node has all rows and reaches all others',
  )
  const fewer = readDeployment(three.replace('replicas: 3', 'replicas: 2'), 'three.yaml')
  t.equal(loginsRepairs(fewer, workOf(fewer)).length, 9, 'each node repairs its own ranges')
})

t.test('a region that joins gets the rows of the others, and no other command', async (t) => {
  const deployment = deploymentOf('three.yaml')
  const all = workOf(deployment)
  const [, json = ''] = /regions.ts add <<'END'\n(.*)\nEND\n/.exec(regionsScript(deployment)) ?? []
  t.match(JSON.parse(json), {
    regions: ['eu-par', 'na-nyc', 'ap-sgp'],
    cassandra: { replicas: 3, nodes: { 'na-nyc': [{ host: '10.2.0.11', port: 9042 }, {}, {}] } },
  })
  t.match(regionsScript(deployment, 'ap-sgp'), /regions.ts join <<'END'\n.*"joining":"ap-sgp"/)
  const [joining] = joiningOf(['', 'joining na-nyc eu-par holdfast_lookups,holdfast_eu_par'])
  t.strictSame(joining, {
    region: 'na-nyc',
    from: 'eu-par',
    keyspaces: ['holdfast_lookups', 'holdfast_eu_par'],
  })
  if (joining === undefined) return
  const scripts = fillingScripts(joining, { replicas: 3, all })
  t.strictSame(
    scripts.map(({ work, script }) => `${work.host.name} ${/nodetool \w+/.exec(script)?.[0]}`),
    ['nyc1', 'nyc2', 'nyc3'].map((name) => `${name} nodetool rebuild`).concat('nyc1 nodetool repair'),
    'one node has all rows of the region: its repair reaches them all',
  )
  t.equal(
    scripts[0]?.script,
    'set -e\nnodetool rebuild --keyspace holdfast_lookups -- eu-par >&2\nnodetool rebuild --keyspace holdfast_eu_par -- eu-par >&2\n',
  )
  t.match(fillingScripts(joining, { replicas: 2, all }).at(-1)?.work.host.name, 'nyc3')
})

t.test('up starts the processes of a region that joins after all others know it', async (t) => {
  const home = t.testdir({
    'via.sh': `script=$(cat)
case "$script" in
  *'echo nothing'*) echo joined; exit;;
  *'regions.ts add'*) step=add; [ -e "$HOME/joined" ] || echo "joining ap-sgp eu-par holdfast_lookups";;
  *'regions.ts join'*) step=join; touch "$HOME/joined";;
  *'nodetool rebuild'*) step=rebuild;;
  *'nodetool repair --full holdfast'*) step=repair;;
  *logins.ts*) step=logins;;
  *'begin holdfast-cassandra'*) step=servers;;
  *'begin holdfast-'*) step=processes;;
  *) step=other;;
esac
echo "$1 $step" >> "$HOME/record"
`,
  })
  const up = (...words: string[]) => {
    writeFileSync(join(home, 'record'), '')
    const { status, stderr } = spawnSync(
      process.execPath,
      [
        join(folder, 'main.ts'),
        ...['up', join(folder, 'three.yaml'), '--via', `sh ${join(home, 'via.sh')} {host}`, ...words],
      ],
      { env: { ...process.env, HOME: home }, encoding: 'utf8' },
    )
    const record = readFileSync(join(home, 'record'), 'utf8').trim().split('\n')
    return { status, stderr, steps: record.filter((line) => !line.endsWith(' logins')) }
  }
  const hosts = (region: string) => [1, 2, 3].map((at) => `${region}${at}`)
  const each = (regions: string[], step: string) => regions.flatMap(hosts).map((host) => `${host} ${step}`)
  const part = up('--only', 'eu-par')
  t.match(part, { status: 1, stderr: /^ap-sgp has not joined the others: up without --only ends that/ })
  t.strictSame(part.steps, [...each(['par'], 'servers'), 'par1 add', ...each(['par'], 'processes')])
  t.notMatch(up('--only', 'ap-sgp').steps, ['sgp1 processes'])
  t.match(up(), {
    status: 0,
    steps: [
      ...each(['par', 'nyc', 'sgp'], 'servers'),
      'par1 add',
      ...each(['par', 'nyc'], 'processes'),
      ...each(['sgp'], 'rebuild'),
      ...['sgp1 repair', 'par1 join'],
      ...each(['sgp'], 'processes'),
    ],
  })
  t.strictSame(up().steps, [
    ...each(['par', 'nyc', 'sgp'], 'servers'),
    'par1 add',
    ...each(['par', 'nyc', 'sgp'], 'processes'),
  ])
})

t.test('a node of Cassandra is replaced without itself among the seeds, until the next up', async (t) => {
  const deployment = deploymentOf('three.yaml')
  const [usual] = workOf(deployment)
  const [work, other] = workOf(deployment, { replaced: 'par1' })
  const place = '/etc/systemd/system/holdfast-cassandra.service.d/replace.conf'
  if (work === undefined || usual === undefined) throw new Error('three.yaml has no host')
  const seedsOf = (files: ReadonlyMap<string, string>) => {
    const text = files.get('/etc/cassandra/cassandra.yaml') ?? ''
    return parse(text).seed_provider[0].parameters[0].seeds.split(',')
  }
  t.ok(seedsOf(usual.files).includes('10.1.0.11:7000'))
  t.strictSame(
    seedsOf(work.files),
    seedsOf(usual.files).filter((seed: string) => seed !== '10.1.0.11:7000'),
  )
  t.match(work.files.get(place), 'JVM_EXTRA_OPTS -Dcassandra.replace_address_first_boot=10.1.0.11"')
  t.match(upScript(work, 'servers'), `put root:root 644 ${place} holdfast-cassandra.service`)
  t.notOk(other?.files.has(place))
  t.match(upScript(usual, 'servers'), `"$root"${place}`, 'it is left over then')

  const main = (...words: string[]) =>
    spawnSync(process.execPath, [join(folder, 'main.ts'), ...words, '--via', 'false'], { encoding: 'utf8' })
  const file = join(folder, 'three.yaml')
  t.match(main('diff', file, '--replace', '--only', 'par1'), { status: 2, stderr: /--replace is for up/ })
  for (const words of [[], ['--only', 'eu-par']])
    t.match(main('up', file, '--replace', ...words), { status: 1, stderr: /--only with a host of Cassandra/ })
})

t.test('a node of Cassandra names itself among the seeds when it has joined the others', async (t) => {
  const seedsOf = (text = '') => parse(text).seed_provider[0].parameters[0].seeds.split(',')
  const rendered = render(deploymentOf('three-hosts.yaml'))
  for (const [host, seeds] of [
    ['par1', ['10.1.0.11:7000', '10.1.0.12:7000']],
    ['par2', ['10.1.0.11:7000']],
    ['par3', ['10.1.0.11:7000', '10.1.0.12:7000']],
  ] as const)
    t.strictSame(seedsOf(rendered.get(`hosts/${host}/etc/cassandra/cassandra.yaml`)), seeds, 'rendered')
  const all = workOf(deploymentOf('three-hosts.yaml'))
  const [first, second, third] = all
  if (first === undefined || second === undefined) throw new Error('three-hosts.yaml has three hosts')

  const joining = (one: string, two: string, three: string | HostFault, chosen = all) =>
    [
      ...joiningNodes(
        { chosen, all },
        new Map([
          ['par1', one],
          ['par2', two],
          ['par3', three],
        ]),
      ),
    ].join()
  const absent = new HostFault('par3', 'no answer')
  t.equal(joining('nothing\n', 'nothing\n', 'nothing\n'), 'par2', 'a new region')
  t.equal(joining('joined\n', 'joined\n', 'joined\n'), '')
  t.equal(joining('joined\n', 'nothing\n', absent), 'par2', 'the region had one node')
  t.equal(joining('nothing\n', 'joined\n', absent), 'par1', 'it was put before the others')
  t.equal(joining('something\n', 'nothing\n', 'nothing\n'), 'par1,par2', 'it was replaced')
  t.throws(() => joining('nothing\n', 'nothing\n', absent), absent, 'this one may have data')
  t.equal(joining('nothing\n', 'joined\n', absent, [second]), '')
  t.equal(third?.node?.joining, undefined, 'no seed')
  const deployment = deploymentOf('three-hosts.yaml')
  const regions = deployment.regions.map((region) => ({ ...region, hosts: region.hosts.slice(0, 1) }))
  t.equal(workOf({ ...deployment, regions })[0]?.node?.joining, undefined, 'it has no other one to join')

  const home = t.testdir({ bin: {}, root: {} })
  const [root, record] = [join(home, 'root'), join(home, 'record')]
  for (const [name, script] of [
    [
      'systemctl',
      `echo "$@" >> "$RECORD"
case "$1 $2" in
  'restart holdfast-cassandra.service') mkdir -p "$HOLDFAST_ROOT/var/lib/cassandra/data/system"
    grep seeds: "$HOLDFAST_ROOT/etc/cassandra/cassandra.yaml" >> "$RECORD";;
  is-failed*) [ "$3 $FAILS" = 'holdfast-cassandra.service yes' ]
esac`,
    ],
    ['ss', '[ "$FAILS $2" = "yes src 10.1.0.12:9042" ] || echo listening'],
    ['nats-server', ''],
    ['chown', ''],
  ] as const) {
    writeFileSync(join(home, 'bin', name), `#!/bin/sh\n${script}\n`)
    chmodSync(join(home, 'bin', name), 0o755)
  }
  for (const path of needsOf(second)) {
    mkdirSync(join(root, path, '..'), { recursive: true })
    writeFileSync(join(root, path), path.endsWith('users.conf') ? 'HOLDFAST_PASSWORD: "x"\n' : '')
  }
  const run = (input: string, fails = '') => {
    writeFileSync(record, '')
    const PATH = `${join(home, 'bin')}:${process.env.PATH}`
    const env = { ...process.env, PATH, HOLDFAST_ROOT: root, RECORD: record, FAILS: fails }
    const { status, stdout, stderr } = spawnSync('sh', { input, env, encoding: 'utf8' })
    return { status, stdout, stderr, said: readFileSync(record, 'utf8') }
  }
  const up = (joins: boolean, fails = '') => run(upScript(second, 'servers', { joins }), fails)
  const path = join(root, 'etc/cassandra/cassandra.yaml')
  t.match(run(nodeScript(second)), { status: 0, stdout: 'nothing\n' })
  t.match(up(true, 'yes'), {
    status: 1,
    stderr: /holdfast-cassandra.service has not joined within/,
    said: /\nrestart holdfast-cassandra.service\n *- seeds: 10.1.0.11:7000\n/,
  })
  t.match(run(nodeScript(second)), { status: 0, stdout: 'something\n' })
  const again = up(true)
  t.match(again, { status: 0, said: '\nstart holdfast-cassandra.service\n' })
  t.notMatch(again.said, 'restart holdfast-cassandra', 'it has copied rows meanwhile')
  t.strictSame(seedsOf(readFileSync(path, 'utf8')), ['10.1.0.11:7000', '10.1.0.12:7000'])
  t.match(run(nodeScript(second)), { status: 0, stdout: 'joined\n' })
  const later = up(false)
  t.match(later, { status: 0, stdout: '', said: '\nstart holdfast-cassandra.service\n' })
  t.notMatch(later.said, 'restart')
})

t.test('a host that gives no answer is named, and the others are shown', async (t) => {
  const home = t.testdir({
    'via.sh': `cat > /dev/null
echo "$1" >> "$HOME/asked"
case "$1" in
  par1) touch "$HOME/par1"; while [ ! -e "$HOME/par3" ]; do sleep 0.1; done; echo "a.service active";;
  par2) echo "No route to host" >&2; exit 255;;
  par3) touch "$HOME/par3"; while [ ! -e "$HOME/par1" ]; do sleep 0.1; done; echo "a.service active";;
  *) kill -KILL $$;;
esac
`,
  })
  const via = ['--via', `sh ${join(home, 'via.sh')} {host}`]
  const infra = (...words: string[]) =>
    spawnSync(process.execPath, [join(folder, 'main.ts'), ...words, ...via], {
      env: { ...process.env, HOME: home },
      encoding: 'utf8',
      // One host after the other would never end.
      timeout: 60_000,
    })
  const three = join(folder, 'three.yaml')
  const status = infra('status', three)
  t.equal(status.status, 1)
  t.strictSame(status.stdout.split('\n').slice(0, 4), [
    'eu-par par1 a.service active',
    'eu-par par2 gives no answer: No route to host (exit 255)',
    'eu-par par3 a.service active',
    'na-nyc nyc1 gives no answer: ended by SIGKILL',
  ])
  const diff = infra('diff', three, '--only', 'eu-par')
  t.equal(diff.status, 1)
  t.match(diff.stderr, /^par2 gives no answer: No route to host \(exit 255\)$/m)
  t.match(diff.stdout, /^missing par1:[\s\S]*^missing par3:/m)
  t.match(infra('up', three), { status: 1, stderr: /^par2: No route to host \(exit 255\)/ })
  writeFileSync(join(home, 'asked'), '')
  t.match(infra('down', three, '--only', 'eu-par'), {
    status: 1,
    stderr: 'par2: No route to host (exit 255)\n',
  })
  t.equal(readFileSync(join(home, 'asked'), 'utf8'), 'par1\npar2\npar3\n', 'down goes on')
})

t.test('render, diff, up, status and down by their commands', async (t) => {
  const home = t.testdir({ bin: {}, root: {} })
  const rendered = join(home, 'out')
  const file = join(folder, 'one.yaml')
  const [stub, files1] = [
    { REFUSED: '', DEAD: '', IDLE: '', REFUSING: '', GONE: '', STUCK: '' },
    'holdfast-files1-holdfast.service',
  ]
  const infra = (...words: string[]) => {
    const env = {
      ...process.env,
      ...stub,
      PATH: `${join(home, 'bin')}:${process.env.PATH}`,
      HOLDFAST_ROOT: join(home, 'root'),
      RECORD: join(home, 'record'),
    }
    const main = join(folder, 'main.ts')
    const { status, stdout, stderr } = spawnSync(process.execPath, [main, ...words], {
      env,
      encoding: 'utf8',
    })
    return { status, stdout, stderr }
  }
  const recorded = () => readFileSync(join(home, 'record'), 'utf8')
  const systemctl = join(home, 'bin/systemctl')
  writeFileSync(
    systemctl,
    `#!/bin/sh
echo "$@" >> "$RECORD"
case "$1" in
  is-active) [ "$2" = --quiet ] && { [ "$3" != "$IDLE" ]; exit; }; [ "$2" != "$DEAD" ] && echo active || { echo failed; exit 3; };;
  is-failed) [ "$3" = "$DEAD" ];;
  *start | reload) [ "$2" != "$REFUSED" ];;
  stop) [ "$2" != "$GONE" ] || exit 5; [ "$2" != "$STUCK" ];;
esac
`,
  )
  chmodSync(systemctl, 0o755)
  const ss = join(home, 'bin/ss')
  writeFileSync(ss, '#!/bin/sh\necho "ss $@" >> "$RECORD"\n[ -n "$DEAD" ] || echo listening\n')
  chmodSync(ss, 0o755)

  const caddy = join(home, 'bin/caddy')
  writeFileSync(
    caddy,
    '#!/bin/sh\necho "caddy $@" >> "$RECORD"\n[ -z "$REFUSING" ] || { echo "Error: line 1"; exit 1; }\n',
  )
  chmodSync(caddy, 0o755)
  const chown = join(home, 'bin/chown')
  writeFileSync(chown, '#!/bin/sh\necho "chown $@" >> "$RECORD"\n')
  chmodSync(chown, 0o755)

  t.match(infra('render', file, '--out', rendered), { status: 0, stdout: '' })
  t.match(infra('diff', file, '--out', rendered), { status: 0, stdout: '' })
  writeFileSync(join(rendered, 'hosts/files1/etc/caddy/Caddyfile'), 'changed')
  t.match(infra('diff', file, '--out', rendered), {
    status: 1,
    stdout: 'changed hosts/files1/etc/caddy/Caddyfile\n',
  })
  t.match(infra('render', file, '--out', home), { status: 1, stderr: /were not rendered/ })

  const via = ['--via', 'sh']
  t.match(infra('up', file, ...via), {
    status: 1,
    stderr: /files1: missing: .*\/etc\/holdfast\/secrets\/admin-token/,
  })
  for (const work of workOf(deploymentOf('one.yaml')))
    for (const path of needsOf(work)) {
      mkdirSync(join(home, 'root', path, '..'), { recursive: true })
      writeFileSync(join(home, 'root', path), '')
    }
  t.match(infra('diff', file, ...via), { status: 1, stdout: 'missing files1:/etc/caddy/Caddyfile\n' })
  t.match(infra('up', file, ...via), { status: 0, stdout: 'files1: changed /etc/caddy/Caddyfile\n' })
  t.strictSame(infra('diff', file, ...via), { status: 0, stdout: '', stderr: '' })
  for (const [name, users] of [
    ['metrics-token', 'prometheus:holdfast'],
    ['admin-token', 'root:holdfast'],
  ] as const) {
    const path = `/etc/holdfast/secrets/${name}`
    t.match(recorded(), `chown ${users} ${join(home, 'root', path)}\n`)
    t.equal(statSync(join(home, 'root', path)).mode & 0o777, 0o640, path)
  }
  t.equal(statSync(join(home, 'root/etc/holdfast/secrets')).mode & 0o777, 0o711)
  t.equal(statSync(join(home, 'root/etc/caddy/Caddyfile')).mode & 0o777, 0o644)
  const webhooks = join(home, 'root/etc/prometheus/alertmanager.yml')
  t.match(recorded(), `chown root:prometheus ${webhooks}.new\n`)
  t.equal(statSync(webhooks).mode & 0o777, 0o640, 'addresses of webhooks')
  chmodSync(webhooks, 0o644)
  t.match(
    recorded(),
    'start holdfast-files1-holdfast.service\nss -Hltn src 127.0.0.1:8090\n',
    'and waits for it',
  )
  for (const unit of ['caddy', 'prometheus', 'prometheus-alertmanager'])
    t.match(recorded(), `enable --quiet ${unit}.service\n`, 'after a restart of the host, too')
  writeFileSync(join(home, 'record'), '')
  t.match(infra('up', file, ...via), { status: 0, stdout: '' }, 'again: nothing changes')
  t.notMatch(recorded(), 'restart')
  t.equal(statSync(webhooks).mode & 0o777, 0o640, 'as an earlier release laid it')
  writeFileSync(join(home, 'root/etc/holdfast/files1-holdfast.env'), '')
  t.match(infra('up', file, ...via), {
    status: 0,
    stdout: 'files1: changed /etc/holdfast/files1-holdfast.env\n',
  })
  t.match(recorded(), 'restart holdfast-files1-holdfast.service\n', 'what uses the file is restarted')
  t.notMatch(recorded(), 'restart caddy', 'and nothing else')

  const proxied = join(home, 'root/etc/caddy/Caddyfile')
  const wanted = readFileSync(proxied, 'utf8')
  writeFileSync(proxied, 'of before')
  writeFileSync(join(home, 'record'), '')
  stub.REFUSING = 'yes'
  t.match(infra('up', file, ...via), {
    status: 1,
    stderr: /Error: line 1\ncaddy.service refuses its new files; it runs on with those of before/,
  })
  t.equal(readFileSync(proxied, 'utf8'), 'of before', 'what it would start with after a crash')
  t.notMatch(recorded(), /(restart|reload) caddy/)
  t.strictSame(infra('diff', file, ...via), {
    status: 1,
    stdout: 'changed files1:/etc/caddy/Caddyfile\nreload files1:caddy.service\n',
    stderr: '',
  })
  stub.REFUSING = ''
  t.strictSame(infra('up', file, ...via), {
    status: 0,
    stdout: 'files1: changed /etc/caddy/Caddyfile\nfiles1: reloaded caddy.service\n',
    stderr: '',
  })
  t.match(
    recorded(),
    `caddy validate --adapter caddyfile --config ${proxied}\nis-active --quiet caddy.service\nreload caddy.service\n`,
  )
  t.notMatch(recorded(), 'restart caddy', 'users keep their connections')
  t.equal(readFileSync(proxied, 'utf8'), wanted)
  t.strictSame(readdirSync(join(home, 'root/etc/caddy')), ['Caddyfile'])
  t.strictSame(infra('diff', file, ...via), { status: 0, stdout: '', stderr: '' })
  for (const [end, why] of [
    [{ REFUSED: 'caddy.service' }, 'one that does not reload'],
    [{ IDLE: 'caddy.service' }, 'one that does not run'],
  ] as const) {
    writeFileSync(proxied, 'of before')
    writeFileSync(join(home, 'record'), '')
    Object.assign(stub, end)
    infra('up', file, ...via)
    t.match(recorded(), '\nrestart caddy.service\n', why)
    Object.assign(stub, { REFUSED: '', IDLE: '' })
  }
  t.match(infra('up', file, ...via), { status: 0 })

  const old = [
    '/etc/systemd/system/holdfast-nats.service',
    '/etc/systemd/system/holdfast-api-2-old.service',
    '/etc/systemd/system/holdfast-old-holdfast.service',
    '/etc/holdfast/nats.conf',
    '/etc/holdfast/api-2-old.env',
  ]
  const own = ['/etc/systemd/system/holdfast-backup.service', '/etc/holdfast/mail.env']
  for (const path of [...old, ...own]) writeFileSync(join(home, 'root', path), '')
  writeFileSync(join(home, 'root/var/lib/holdfast/started/nginx.service'), 'x\n')
  t.strictSame(
    infra('diff', file, ...via)
      .stdout.trim()
      .split('\n')
      .sort(),
    [...old.map((path) => `left over files1:${path}`).sort(), 'left over files1:nginx.service'],
  )
  writeFileSync(join(home, 'record'), '')
  t.strictSame(
    infra('up', file, ...via)
      .stdout.trim()
      .split('\n')
      .sort(),
    [...old.map((path) => `files1: removed ${path}`).sort(), 'files1: stopped nginx.service'],
  )
  const [first, second] = recorded().split('\n')
  t.strictSame([first, second], ['stop holdfast-nats.service', 'disable --quiet holdfast-nats.service'])
  t.ok(recorded().lastIndexOf('\nstop ') < recorded().indexOf('\nstart '), 'before anything is started')
  t.match(recorded(), 'stop nginx.service\n')
  t.strictSame(infra('diff', file, ...via), { status: 0, stdout: '', stderr: '' })
  for (const path of own) t.ok(statSync(join(home, 'root', path)), 'what it never wrote stays')

  const env = join(home, 'root/etc/holdfast/files1-holdfast.env')
  for (const [end, why] of [
    [{ REFUSED: files1 }, /files1: holdfast-files1-holdfast.service does not start; see .* journalctl -eu/],
    [{ DEAD: files1 }, /files1: holdfast-files1-holdfast.service does not listen on 127.0.0.1:8090 within/],
  ] as const) {
    writeFileSync(env, '')
    writeFileSync(join(home, 'record'), '')
    Object.assign(stub, end)
    t.match(infra('up', file, ...via), { status: 1, stderr: why })
    t.notMatch(recorded(), 'start caddy', 'nothing is started after it')
    Object.assign(stub, { REFUSED: '', DEAD: '' })
    t.strictSame(infra('diff', file, ...via), { status: 1, stdout: `restart files1:${files1}\n`, stderr: '' })
    t.match(infra('up', file, ...via), { status: 0, stdout: '' }, 'no file changes any more')
    t.match(recorded(), `restart ${files1}\n`, 'but the unit ran with the older one, or not at all')
    t.match(infra('diff', file, ...via), { status: 0, stdout: '' })
  }

  const units = [files1, 'caddy.service', 'prometheus.service', 'prometheus-alertmanager.service']
  const states = (state: (unit: string) => string) =>
    units.map((unit) => `eu-par files1 ${unit} ${state(unit)}\n`).join('')
  t.match(infra('status', file, ...via), { status: 0, stdout: states(() => 'active') })
  for (const unit of units) {
    stub.DEAD = unit
    t.strictSame(infra('status', file, ...via), {
      status: 1,
      stdout: states((one) => (one === unit ? 'failed' : 'active')),
      stderr: '',
    })
  }
  stub.DEAD = ''
  writeFileSync(join(home, 'record'), '')
  t.match(infra('down', file, ...via), { status: 0 })
  t.equal(
    recorded(),
    units
      .toReversed()
      .map((unit) => `stop ${unit}\n`)
      .join(''),
    'the last one first',
  )
  for (const [end, said] of [
    [{ GONE: 'prometheus.service' }, { status: 0, stderr: '' }],
    [
      { STUCK: 'prometheus.service' },
      { status: 1, stderr: 'files1: does not stop: prometheus.service (exit 1)\n' },
    ],
  ] as const) {
    writeFileSync(join(home, 'record'), '')
    Object.assign(stub, end)
    t.match(infra('down', file, ...via), said)
    t.match(recorded(), `stop ${files1}\n`, 'what comes after it is stopped')
    Object.assign(stub, { GONE: '', STUCK: '' })
  }

  const others = join(home, 'bin')
  t.match(infra('down', file, '--namespaces', others), { status: 1, stderr: /no deployment runs in/ })
  t.ok(readdirSync(others).includes('systemctl'), 'a folder that no deployment made stays')

  writeFileSync(join(home, 'bad.yaml'), 'deployment: x\n')
  t.match(infra('render', join(home, 'bad.yaml'), '--out', rendered), {
    status: 78,
    stderr: /bad.yaml:1: domain is missing/,
  })
  t.match(infra('rendre', file), { status: 2, stderr: /npm run -s infra/ })
  t.match(infra('rendre', file), { stderr: /ssh .*ConnectTimeout=5 .*ServerAliveInterval=5 / })
})

t.test('a render that was interrupted is repeated, and leaves nothing over', async (t) => {
  const texts = (...paths: string[]) => new Map(paths.map((path) => [path, `text of ${path}`]))
  const folder = t.testdir({ '.holdfast-rendered.new': 'of a render that ended at once' })
  // No file is below a file: this render ends after some of its files.
  for (const time of ['first', 'second'])
    t.throws(() => writeOutput(texts('a/one', 'two', 'two/below'), folder), { code: /EEXIST|ENOTDIR/ }, time)
  t.ok(existsSync(join(folder, 'a/one')))
  const whole = texts('a/three', 'two')
  writeOutput(whole, folder)
  t.strictSame(differences(whole, folder), [])
  t.strictSame(readdirSync(folder, { recursive: true }).sort(), ['.holdfast-rendered', 'a', 'a/three', 'two'])
  rmSync(join(folder, '.holdfast-rendered'))
  t.throws(() => writeOutput(whole, folder), { message: /holds files that were not rendered/ })
})

t.test('the check of manifests refuses unknown fields, and kinds without a schema', async (t) => {
  const files = render(deploymentOf('three.yaml'))
  const manifests = files.get('kubernetes/eu-par/par1/processes.yaml') ?? ''
  const folder = t.testdir({
    'good.yaml': manifests,
    'field.yaml': manifests.replace('hostNetwork: true', 'hostNetwerk: true'),
    'missing.yaml': manifests.replaceAll('containers:', 'contaners:'),
    'kind.yaml': 'apiVersion: v1\nkind: Podd\nmetadata:\n  name: x\n',
  })
  const accepted = async (name: string) => {
    const { tool, args, bad } = await kubernetesCheck([join(folder, name)])
    const { status, stdout, stderr } = spawnSync(tool.path, args, { env: tool.env, encoding: 'utf8' })
    return status === 0 && !bad?.test(`${stdout}${stderr}`)
  }
  t.equal(await accepted('good.yaml'), true)
  for (const name of ['field.yaml', 'missing.yaml', 'kind.yaml']) t.equal(await accepted(name), false, name)
})
