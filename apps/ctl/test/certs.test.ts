/** `ctl certs` without any service. */
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { Authority, clusterNames } from '@holdfast/trust'
import t from 'tap'
import { readDeployment } from '../../../infra/regions/deployment.ts'
import { needsOf, workOf } from '../../../infra/regions/hosts.ts'
import { planOf } from '../../../infra/regions/plan.ts'
import { places } from '../../../infra/regions/platform.ts'
import { ctl } from '../src/index.ts'

const examples = join(import.meta.dirname, '../../../infra/regions')
const example = join(examples, 'three.yaml')

async function run(...words: string[]) {
  const [out, err]: [string[], string[]] = [[], []]
  const code = await ctl(words, {
    env: {},
    readSecret: () => '',
    print: (line) => out.push(line),
    complain: (line) => err.push(line),
  })
  return { code, out: out.join('\n'), err: err.join('\n') }
}

t.test('an authority is made once, and every host of a deployment gets its certificate', async (t) => {
  const directory = join(t.testdir(), 'ca')
  const made = await run('certs', 'init', directory, '--name', 'three', '--days', '100')
  t.match(JSON.parse(made.out), { name: 'three', daysLeft: 99 })
  t.match(await run('certs', 'init', directory), { code: 1, err: /has an authority already/ })

  const issued = await run('certs', 'issue', directory, '--deployment', example)
  t.equal(issued.code, 0, issued.err)
  const hosts = JSON.parse(issued.out) as { name: string; names: string[] }[]
  t.equal(
    hosts.length,
    33,
    'two for each of nine hosts; two more for each of six proxies, one for each of three Prometheus',
  )
  const [own, frontend] = [['DNS:par1', 'IP Address:10.1.0.11'], `DNS:${clusterNames.frontend}`]
  t.match(hosts[0], { name: 'par1', daysLeft: 364 })
  t.same(hosts[0]?.names, [...own, frontend])
  t.same(hosts[1]?.names, [...own, `DNS:${clusterNames.proxy}`], 'of its proxy')
  t.same(readdirSync(join(directory, 'sgp3')), [
    ...['ca.pem', 'cassandra-ca.pem', 'cassandra.pem', 'internode.pem', 'node.key', 'node.pem'],
    ...['prometheus.key', 'prometheus.pem'],
  ])

  const more = await run(
    'certs',
    'issue',
    directory,
    'extra',
    '--names',
    '10.9.0.1,extra.internal',
    '--days',
    '5',
  )
  t.match(JSON.parse(more.out), [{ names: ['DNS:extra', 'IP Address:10.9.0.1', 'DNS:extra.internal'] }])
  const shown = JSON.parse((await run('certs', 'show', directory)).out)
  t.match(shown, {
    authority: { name: 'three' },
    cassandraAuthority: { name: 'three Cassandra', daysLeft: 99 },
    hosts: [{ name: 'extra', daysLeft: 4 }],
  })
  t.equal(shown.hosts.length, 34)
  const renewed = await run('certs', 'renew', directory, '--within', '30')
  t.match(JSON.parse(renewed.out), [{ name: 'extra', daysLeft: 364 }])
  t.equal((await Authority.open(directory).then((one) => one.issued())).length, 34)
})

t.test('every file that a rendered host needs is issued, with the names that its proxy serves', async (t) => {
  const directory = join(t.testdir(), 'ca')
  await run('certs', 'init', directory)
  for (const name of ['three.yaml', 'three-hosts.yaml', 'eight.yaml']) {
    const file = join(examples, name)
    const deployment = readDeployment(readFileSync(file, 'utf8'), name)
    const made = await run('certs', 'issue', directory, '--deployment', file)
    t.equal(made.code, 0, made.err)
    const { regions } = planOf(deployment)
    for (const work of workOf(deployment)) {
      const needed = needsOf(work).flatMap((path) => (path.startsWith(places.tls) ? [basename(path)] : []))
      const folder = join(directory, work.host.name)
      t.same(
        needed.filter((file) => !existsSync(join(folder, file))),
        [],
        `${name}: ${work.host.name}`,
      )
      const fronts = work.host.roles.some((role) => role === 'api' || role === 'upload')
      for (const [file, name, has] of [
        ['node.pem', clusterNames.frontend, fronts],
        ['proxy.pem', clusterNames.proxy, work.host.roles.includes('proxy')],
      ] as const) {
        const path = join(folder, file)
        const found = existsSync(path) && new X509Certificate(readFileSync(path)).checkHost(name) === name
        t.equal(found, has, `${work.host.name} ${file}`)
      }
      if (!needed.includes('public.pem')) continue
      const { web, api, upload, regionalUpload, download, regionalDownload } =
        regions.find(({ code }) => code === work.host.region)?.names ?? ({} as Record<string, string>)
      const certificate = new X509Certificate(readFileSync(join(folder, 'public.pem')))
      for (const served of [web, api, upload, regionalUpload, download, regionalDownload])
        t.equal(certificate.checkHost(served ?? ''), served)
      t.ok(certificate.checkPrivateKey(createPrivateKey(readFileSync(join(folder, 'public.key')))))
    }
  }
})

t.test('names may be as long as those of DNS', async (t) => {
  const [folder, zone] = [t.testdir(), `${'a23456789.'.repeat(23)}example`]
  const [directory, file] = [join(folder, 'ca'), join(folder, 'long.yaml')]
  const text = readFileSync(join(examples, 'three-hosts.yaml'), 'utf8')
  writeFileSync(file, text.replaceAll(/(?<=^(domain|downloads): )\S+/gm, zone))
  await run('certs', 'init', directory)
  const issued = await run('certs', 'issue', directory, '--deployment', file)
  t.equal(issued.code, 0, issued.err)
  const certificate = new X509Certificate(readFileSync(join(directory, 'par1/public.pem')))
  const longest = `download-eu-par.${zone}`
  t.equal(longest.length, 253)
  t.equal(certificate.checkHost(longest), longest)
  t.equal(certificate.subject, 'CN=par1', 'a common name is short')
  t.match(await run('certs', 'issue', directory, `a.${longest}`), { code: 1, err: /no name of a host/ })
  t.match(await run('certs', 'issue', directory, 'a'.repeat(64)), { code: 1, err: /no name of a host/ })
  t.match(await run('certs', 'issue', directory, longest), { code: 0 })
})

t.test('a public certificate of another authority stays, and is not renewed', async (t) => {
  const [directory, other] = [join(t.testdir(), 'ca'), join(t.testdir(), 'other')]
  for (const path of [directory, other]) {
    await run('certs', 'init', path)
    await run('certs', 'issue', path, '--deployment', example, '--days', '5')
  }
  const at = (path: string) => join(path, 'par1/public.pem')
  const bought = readFileSync(at(other))
  writeFileSync(at(directory), bought)
  const issued = JSON.parse((await run('certs', 'issue', directory, '--deployment', example)).out)
  t.equal(issued.length, 32)
  t.equal(JSON.parse((await run('certs', 'renew', directory, '--within', '9999')).out).length, 32)
  t.ok(readFileSync(at(directory)).equals(bought))
})

t.test('a refused command says why, and makes nothing', async (t) => {
  const directory = t.testdir()
  const none = join(directory, 'none')
  t.match(await run('certs', 'show', none), { code: 1, err: /no authority/ })
  t.match(await run('certs', 'issue', none, 'a'), { code: 1, err: /no authority/ })
  t.notOk(existsSync(none))
  t.match(await run('certs', 'init'), { code: 2, err: /the directory is missing/ })
  t.match(await run('certs', 'init', none, '--days', '0'), { code: 2 })
  await run('certs', 'init', none)
  t.match(await run('certs', 'issue', none), { code: 2, err: /a host or --deployment is missing/ })
  t.match(await run('certs', 'issue', none, 'A'), { code: 1, err: /no name of a host/ })
  const file = join(directory, 'alone.yaml')
  writeFileSync(file, 'regions: [{hosts: [{name: a, internal: 10.0.0.1, roles: [standalone, proxy]}]}]')
  t.match(await run('certs', 'issue', none, '--deployment', file), { code: 1, err: /no host that needs/ })
})
