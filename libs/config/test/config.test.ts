import { rootCertificates } from 'node:tls'
import t from 'tap'
import {
  clusterSettings,
  describeSettings,
  readClusterConfig,
  readConfig,
  SettingsFault,
  settings,
} from '../src/index.ts'
import type { Setting } from '../src/setting-kinds.ts'

const noFiles = { readSecret: () => '' }

function faultsOf(
  env: Record<string, string>,
  files: { readSecret: (path: string) => string } = noFiles,
): readonly string[] {
  try {
    readConfig(env, files)
    return []
  } catch (error) {
    if (error instanceof SettingsFault) return error.faults
    throw error
  }
}

t.test('an empty environment gives the defaults that the interface promises, deeply frozen', async (t) => {
  const { config, secrets } = readConfig({ PATH: '/bin', HOLDFAST_SMTP_URL: '' }, noFiles)
  t.same(config.listen, {
    host: '127.0.0.1',
    adminHost: '127.0.0.1',
    api: 8080,
    upload: 8081,
    download: 8082,
    admin: 8090,
  })
  t.ok(config.dataDir.endsWith('/data'))
  t.ok(config.expirySweepMs <= 2000)
  t.equal(config.tiers.guest.contents, 10_000)
  t.equal(config.openListing, false)
  t.match(config, { signUp: { mode: 'open', domains: [] }, guestUploads: true, fileBytesMax: undefined })
  t.same(secrets, { smtpUrl: undefined, adminToken: undefined, metricsToken: undefined })
  t.throws(() => {
    ;(config.tiers.guest as { contents: number }).contents = 1
  }, TypeError)
})

t.test('every setting that refuses values describes the valid ones', async (t) => {
  for (const [name, { form, parse }] of Object.entries<Setting<unknown>>({ ...settings, ...clusterSettings }))
    t.equal(
      form !== '',
      refuses(() => parse('\u0001')),
      name,
    )

  function refuses(parse: () => unknown): boolean {
    try {
      parse()
      return false
    } catch {
      return true
    }
  }
})

t.test('every fault is reported at once, a mistyped name with the likely one', async (t) => {
  const faults = faultsOf({
    HOLDFAST_API_PORT: '80a',
    HOLDFAST_UPLOAD_PORT: '65536',
    HOLDFAST_DOWNLOAD_PORT: '-1',
    HOLDFAST_ADMIN_PORT: '1e3',
    HOLDFAST_RATE_LIMITS: 'none',
    HOLDFAST_OPEN_LISTING: 'true',
    HOLDFAST_EXPIRY_SWEEP_SECONDS: '0x2',
    HOLDFAST_GUEST_CONTENTS: '10,000',
    HOLDFAST_GUEST_STORAGE: '10 parsecs',
    HOLDFAST_PUBLIC_API_URL: 'files.example.org',
    HOLDFAST_PUBLIC_WEB_URL: 'https://example.org/files/',
    HOLDFAST_TRUST_PROXY: 'true',
    HOLDFAST_SMTP_URL: 'http://mail',
    HOLDFAST_ADMIN_TOKEN: 'short',
    HOLDFAST_REGION: 'mars',
    HOLDFAST_BIND: 'example.org',
    HOLDFAST_MAIL_FROM: 'a@b\r\nBcc: c@d',
    HOLDFAST_DATA_DIRR: '/x',
    HOLDFAST_NOTHING_LIKE_IT: '1',
  })
  t.equal(faults.length, 19)
  t.match(
    faults.find((fault) => fault.startsWith('HOLDFAST_DATA_DIRR')),
    'did you mean HOLDFAST_DATA_DIR?',
  )
  t.notMatch(faults.join('\n'), /short|http:\/\/mail/, 'no secret is repeated')
})

t.test('two hosts on one port are refused before anything listens, free ports are not', async (t) => {
  t.match(faultsOf({ HOLDFAST_UPLOAD_PORT: '8080' }), [
    'HOLDFAST_UPLOAD_PORT is 8080, which HOLDFAST_API_PORT takes',
  ])
  t.same(faultsOf({ HOLDFAST_API_PORT: '0', HOLDFAST_UPLOAD_PORT: '0' }), [])
})

t.test('values keep their meaning through units, lists and slashes', async (t) => {
  const { config } = readConfig(
    {
      HOLDFAST_PREMIUM_STORAGE: '2TiB',
      HOLDFAST_STANDARD_STORAGE: '5 GB',
      HOLDFAST_EXPIRY_SWEEP_SECONDS: '0.2',
      HOLDFAST_CLOCK_JUMP_SECONDS: '3600',
      HOLDFAST_TRUST_PROXY: '10.0.0.0/8, ::1',
      HOLDFAST_PUBLIC_DOWNLOAD_URL: 'https://dl.example.org/',
      HOLDFAST_BIND: '0.0.0.0',
      HOLDFAST_ADMIN_BIND: '127.0.0.1',
    },
    noFiles,
  )
  t.equal(config.tiers.premium.storage, 2 * 1024 ** 4)
  t.equal(config.tiers.standard.storage, 5e9)
  t.equal(config.expirySweepMs, 200)
  t.equal(config.clockJumpMs, 3_600_000)
  t.same(config.trustProxy, ['10.0.0.0/8', '::1'])
  t.equal(config.publicUrls.download, 'https://dl.example.org')
  t.same([config.listen.host, config.listen.adminHost], ['0.0.0.0', '127.0.0.1'])
  t.equal(readConfig({ HOLDFAST_RESERVE: '10GiB' }, noFiles).config.store.reserveBytes, 10 * 1024 ** 3)
  t.equal(config.store.reserveBytes, undefined)
  t.equal(readConfig({ HOLDFAST_TRUST_PROXY: '2' }, noFiles).config.trustProxy, 2)
})

t.test('servers whose certificates are read have a scheme, a host and a port', async (t) => {
  const read = (list: string) =>
    readConfig({ HOLDFAST_CERTIFICATE_SERVERS: list }, noFiles).config.certificateServers
  t.same(read(''), [])
  t.same(read('nats://10.0.0.1:4222,cassandra://node-1.example.org:9042,tls://[fd00::1]:7000'), [
    { scheme: 'nats', host: '10.0.0.1', port: 4222 },
    { scheme: 'cassandra', host: 'node-1.example.org', port: 9042 },
    { scheme: 'tls', host: 'fd00::1', port: 7000 },
  ])
  const many = (count: number) => Array.from({ length: count }, () => 'tls://h:1').join(',')
  t.equal(read(many(3_072)).length, 3_072)
  t.match(faultsOf({ HOLDFAST_CERTIFICATE_SERVERS: many(3_073) }), [
    /^HOLDFAST_CERTIFICATE_SERVERS names 3073 servers, but must name up to 3072 servers like nats:/,
  ])
  for (const bad of [
    ...[
      'h:1',
      'https://h:1',
      'tls://h',
      'tls://h:0',
      'tls://h:65536',
      'tls://h:1/',
      'tls://u@h:1',
      'tls://:1',
    ],
    ...['tls://fd00::1:1', 'tls://[h]:1', 'tls://[10.0.0.1]:1', 'tls://[fd00::1:1', ' tls://h:1', ''],
  ])
    t.match(
      faultsOf({ HOLDFAST_CERTIFICATE_SERVERS: `tls://h:1,${bad}` }),
      [`HOLDFAST_CERTIFICATE_SERVERS names "${bad}", but must name up to 3072 servers like`],
      bad,
    )
})

t.test(
  'a secret comes from the variable or from its file, never from both, and is never shown',
  async (t) => {
    const files = {
      readSecret: (path: string) => (path === '/run/token' ? 'from-a-file-0123456789\n' : fail(path)),
    }
    const env = { HOLDFAST_ADMIN_TOKEN_FILE: '/run/token', HOLDFAST_SMTP_URL: 'smtp://u:hush@h' }
    t.equal(readConfig(env, files).secrets.adminToken, 'from-a-file-0123456789')
    t.equal(faultsOf({ ...env, HOLDFAST_ADMIN_TOKEN: 'another-0123456789' }, files).length, 1)
    const both = { ...env, HOLDFAST_METRICS_TOKEN: 'from-a-file-0123456789' }
    t.match(faultsOf(both, files), [/^HOLDFAST_METRICS_TOKEN is the value of HOLDFAST_ADMIN_TOKEN/])
    t.match(faultsOf({ HOLDFAST_ADMIN_TOKEN_FILE: '/missing' }, files), [/cannot be read from/])
    const empty = { readSecret: () => ' \n' }
    t.match(faultsOf({ HOLDFAST_ADMIN_TOKEN_FILE: '/cut-off' }, empty), [
      /is empty in HOLDFAST_ADMIN_TOKEN_FILE/,
    ])
    t.equal(faultsOf({ HOLDFAST_REGION_FILE: '/run/token' }, files).length, 1, 'only secrets come from files')
    const shown = describeSettings(env)
    t.equal(shown.length, Object.keys(settings).length)
    t.notMatch(JSON.stringify(shown), /hush/)
    t.match(
      shown.find(({ name }) => name === 'HOLDFAST_SMTP_URL'),
      { value: '(set)' },
    )
  },
)

function fail(path: string): never {
  throw new Error(`no such file: ${path}`)
}

t.test('an upload frontend stores when configured to, on its own ports', async (t) => {
  const env = { HOLDFAST_NODE_NAME: 'upload-1', HOLDFAST_CLUSTER_SECRET: 'secret-of-a-cluster' }
  const faults = (more: Record<string, string>): readonly string[] => {
    try {
      readClusterConfig({ ...env, ...more }, noFiles)
      return []
    } catch (error) {
      return (error as SettingsFault).faults
    }
  }
  t.equal(readClusterConfig(env, noFiles).config.uploadStores, false)
  const stores = { HOLDFAST_UPLOAD_STORES: 'on' }
  t.equal(readClusterConfig({ ...env, ...stores }, noFiles).config.uploadStores, true)
  t.match(faults({ HOLDFAST_UPLOAD_STORES: 'yes' }), [/HOLDFAST_UPLOAD_STORES/])
  t.same(faults({ HOLDFAST_BYTES_PORT: '8091' }), [
    'HOLDFAST_BYTES_PORT is 8091, which HOLDFAST_CONTROL_PORT takes',
  ])
  t.same(faults({ HOLDFAST_CONTROL_PORT: '8081' }), [], 'no other host listens there')
  t.same(faults({ ...stores, HOLDFAST_CONTROL_PORT: '8081' }), [
    'HOLDFAST_CONTROL_PORT is 8081, which HOLDFAST_UPLOAD_PORT takes',
  ])
})

t.test(
  'NATS and Cassandra clients have a name and a password, or neither; authorities are certificates',
  async (t) => {
    const env = { HOLDFAST_NODE_NAME: 'upload-1', HOLDFAST_CLUSTER_SECRET: 'secret-of-a-cluster' }
    const files = {
      readSecret: (path: string) => (path === '/ca.pem' ? rootCertificates[0] : 'from-a-file\n') as string,
    }
    const read = (more: Record<string, string>) => readClusterConfig({ ...env, ...more }, files)
    const plain = read({})
    t.same([plain.secrets.nats, plain.secrets.cassandra], [undefined, undefined])
    t.same([plain.config.natsTlsCa, plain.config.cassandra.tlsCa], [undefined, undefined])
    const given = {
      HOLDFAST_NATS_USER: 'holdfast',
      HOLDFAST_NATS_PASSWORD: 'hush',
      HOLDFAST_NATS_TLS_CA: '/ca.pem',
      HOLDFAST_CASSANDRA_USER: 'metadata',
      HOLDFAST_CASSANDRA_PASSWORD_FILE: '/run/password',
      HOLDFAST_CASSANDRA_TLS_CA: '/ca.pem',
    }
    const { config, secrets } = read(given)
    t.match(secrets, {
      nats: { user: 'holdfast', password: 'hush' },
      cassandra: { user: 'metadata', password: 'from-a-file' },
    })
    t.same([config.natsTlsCa, config.cassandra.tlsCa], ['/ca.pem', '/ca.pem'])
    t.notMatch(JSON.stringify([config, describeSettings(given, clusterSettings)]), /hush|from-a-file/)
    t.equal(plain.config.tls, undefined)
    const identity = {
      HOLDFAST_TLS_CA: '/ca.pem',
      HOLDFAST_TLS_CERT: '/ca.pem',
      HOLDFAST_TLS_KEY: '/node.key',
    }
    t.same(read(identity).config.tls, { ca: '/ca.pem', own: { cert: '/ca.pem', key: '/node.key' } })
    t.throws(() => read({ HOLDFAST_TLS_CA: '/ca.pem' }), {
      message: /HOLDFAST_TLS_CERT and HOLDFAST_TLS_KEY must be set too/,
    })
    t.equal(read(identity).config.frontendTls, 'off')
    t.equal(read({ ...identity, HOLDFAST_FRONTEND_TLS: 'required' }).config.frontendTls, 'required')
    t.throws(() => read({ HOLDFAST_FRONTEND_TLS: 'required' }), {
      message: /HOLDFAST_FRONTEND_TLS is required, HOLDFAST_TLS_CA is not set/,
    })
    t.equal(read({ ...identity, HOLDFAST_ADMIN_TLS: 'preferred' }).config.adminTls, 'preferred')
    t.throws(() => read({ HOLDFAST_ADMIN_TLS: 'offered' }), {
      message: /HOLDFAST_ADMIN_TLS is offered, HOLDFAST_TLS_CA is not set/,
    })
    t.throws(() => read({ ...identity, HOLDFAST_TLS_CERT: '/not.pem' }), {
      message: /HOLDFAST_TLS_CERT=.not.pem is no file of certificates/,
    })
    const several = { HOLDFAST_CLUSTER_SECRET: 'the-next-secret-0\nsecret-of-a-cluster\n' }
    t.same(read(several).secrets.clusterSecret, ['the-next-secret-0', 'secret-of-a-cluster'])
    t.throws(() => read({ HOLDFAST_CLUSTER_SECRET: 'the-next-secret-0 short' }), {
      message: /HOLDFAST_CLUSTER_SECRET must be 16 to 512/,
    })
    const wrong = {
      HOLDFAST_NATS_USER: 'holdfast',
      HOLDFAST_CASSANDRA_PASSWORD: 'hush',
      HOLDFAST_NATS_TLS_CA: '/not.pem',
    }
    t.throws(() => read(wrong), {
      message:
        /NATS_USER is set, HOLDFAST_NATS_PASSWORD is not\n.*CASSANDRA_PASSWORD is set, .*\n.*NATS_TLS_CA=.not.pem is no file/,
    })
  },
)

/** Texts of each kind of value. */
const texts = [
  ...['on', 'off', '2', '7001', '100000000', '5GiB', '12345', 'invite', 'accept', 'level', 'debug'],
  ...['file:/mails', 'clamd:/socket', '/ca.pem', 'text', '0123456789abcdef', 'another-0123456789'],
  ...['http://files.example.org', 'smtp://mail.example.org', 'nats://one.example.org:4222'],
  ...[
    'na-nyc',
    'na-nyc,eu-par',
    'na-nyc=http://up.example.org',
    'one.example.org:9042',
    'eu-par=c:1;na-nyc=d:1',
  ],
  ...['127.0.0.2', 'example.org', 'Files <files@example.org>', '10.0.0.0/8'],
]
/** Settings that are set together or not at all. */
const together: Record<string, string>[] = [
  { HOLDFAST_REGIONS: 'eu-par,na-nyc', HOLDFAST_CASSANDRA: 'eu-par=a:1;na-nyc=b:1' },
  { HOLDFAST_NATS_USER: 'ann', HOLDFAST_NATS_PASSWORD: 'hush' },
  { HOLDFAST_CASSANDRA_USER: 'ann', HOLDFAST_CASSANDRA_PASSWORD: 'hush' },
  {
    HOLDFAST_TLS_CA: '/a.pem',
    HOLDFAST_TLS_CERT: '/a.pem',
    HOLDFAST_TLS_KEY: '/a.key',
    HOLDFAST_FRONTEND_TLS: 'offered',
    HOLDFAST_ADMIN_TLS: 'offered',
  },
]

for (const [mode, { known, base, read }] of Object.entries({
  embedded: {
    known: settings,
    base: {},
    read: (env: Record<string, string>) => readConfig(env, noFiles),
  },
  cluster: {
    known: clusterSettings,
    base: { HOLDFAST_NODE_NAME: 'upload-1', HOLDFAST_CLUSTER_SECRET: 'secret-of-a-cluster' },
    read: (env: Record<string, string>) =>
      readClusterConfig(env, { readSecret: () => rootCertificates[0] as string }),
  },
})) {
  t.test(`${mode}: no setting is without effect on the configuration`, async (t) => {
    const results = (name: string) => {
      const others = { ...base, ...together.find((group) => name in group) }
      const seen = [others, ...texts.map((text) => ({ ...others, [name]: text }))].flatMap((env) => {
        try {
          return [JSON.stringify(read(env))]
        } catch {
          return []
        }
      })
      return new Set(seen)
    }
    t.strictSame(
      Object.keys(known).filter((name) => results(name).size < 2),
      [],
    )
  })

  t.test(`${mode}: seconds keep their unit`, async (t) => {
    for (const name of Object.keys(known).filter((each) => each.endsWith('_SECONDS'))) {
      // Settings have different bounds.
      const kept = [7, 77, 7_777].filter((seconds) => {
        try {
          const fields = JSON.stringify(read({ ...base, [name]: String(seconds) }))
          return new RegExp(`Ms":${seconds * 1000}[,}]|[sS]econds":${seconds}[,}]`).test(fields)
        } catch {
          return false
        }
      })
      t.not(kept.length, 0, name)
    }
  })
}
