/**
 * Rules about the documents: pages that a program writes are up to date, READMEs are short, and
 * what a page or a comment refers to is there.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import { clusterSettings, readClusterConfig, settings } from '@holdfast/config'
import { statuses } from '@holdfast/http-kit'
import { tagCodePointsMax } from '@holdfast/kernel'
import t from 'tap'
import { cases } from '../infra/capacity/cases.ts'
import { documents } from '../infra/documents/documents.ts'
import { withService } from '../infra/documents/service.ts'
import { operationsByStatus } from '../infra/documents/statuses.ts'
import { wrapPage } from '../infra/documents/wrapped.ts'
import { type PresentedItem, shapeOf } from '../libs/http-kit/src/items/item-members.ts'
import { httpCodes } from './acceptance/answer.ts'
import { allRows, endpoints } from './acceptance/coverage.ts'

const root = join(import.meta.dirname, '..')
const read = (file: string) => readFileSync(join(root, file), 'utf8')
const tracked = execFileSync('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], {
  cwd: root,
  encoding: 'utf8',
})
  .split('\0')
  .filter((file) => file !== '' && existsSync(join(root, file)))
const pages = tracked.filter((file) => file.endsWith('.md'))
const sources = tracked.filter((file) => /\.(ts|mjs|js|proto|sh)$/.test(file) && !file.includes('/gen/'))

/** A README of the whole is read in some minutes, that of a part is one screen. */
const readmeBytesMax = 8_192
const partLinesMax = 60
const partBytesMax = 5_200

const contract = 'apps/api/CONTRACT.md'
/** What every operation may answer: the contract says it once. */
const ofEveryOperation =
  sectionOf(read(contract), 'Errors') + sectionOf(read(contract), 'Requests and answers')
/** Sections for what the acceptance table has beside endpoints. */
const themes: Readonly<Record<string, string>> = {
  'tokens, in every request': 'Authentication',
  'order of checks': 'Requests and answers',
  'answers, in every request': 'Requests and answers',
  'states and transitions': 'States',
  'downloads by link': 'Downloads by link',
  'direct links opened': 'Direct links opened',
  'recycle bin': 'GET /recyclebin',
  'caps and statistics': 'Limits',
  'rate limits and bans': 'Limits',
  mail: 'Operator',
  operator: 'Operator',
  'beyond the contract': 'Extensions',
  'real clients': 'Clients',
}
/** `holdfast_` names that are not metrics. */
const keyspaces = ['holdfast_lookups']

t.test('generated pages are up to date', (t) =>
  withService((service) => {
    for (const { path, text } of documents) t.equal(read(path), text(service), `${path}: npm run documents`)
    const metrics = read('infra/METRICS.md')
    for (const file of sources.filter((name) => /^(apps|libs)\/[^/]+\/src\//.test(name)))
      for (const [, name = ''] of read(file).matchAll(/'(holdfast_[a-z_]+)'/g))
        t.ok(metrics.includes(`\`${name}\``) || keyspaces.includes(name), `${file}: ${name}`)
  }),
)

t.test('the contract names what the OpenAPI document declares', (t) =>
  withService(async ({ operations }) => {
    const text = read(contract)
    for (const [path, methods] of Object.entries(operations))
      for (const [method, { parameters = [], requestBody, responses }] of Object.entries(methods)) {
        if (responses === undefined) continue
        const title = `${method.toUpperCase()} ${path.replace(/^\/uploadfile$/, '{upload_url}$&')}`
        const section = sectionOf(text, title)
        t.ok(section, `a section for ${title}`)
        const fields = Object.values(requestBody?.content ?? {}).flatMap(({ schema }) =>
          Object.keys(schema?.properties ?? {}),
        )
        const names = [...parameters.map(({ name }) => name), ...fields].filter((name) => name !== 'token')
        for (const name of names) t.ok(section.includes(`\`${name}\``), `${title}: ${name}`)
        const declared = Object.values(responses).flatMap(
          ({ content }) => content?.['application/json']?.schema?.properties?.status?.enum ?? [],
        )
        for (const status of declared.filter((each) => each !== 'ok')) {
          const parameter = `\`${status.slice('error-'.length)}\``
          t.ok(
            (ofEveryOperation + section).includes(status) || section.includes(parameter),
            `${title}: ${status}`,
          )
        }
      }
  }),
)

/** Statuses of downloads alone. A path without the method is no operation either. */
const ofNoOperation = ['error-precondition', 'error-range', 'error-method']

t.test('every other status is declared by an operation of the OpenAPI document', (t) =>
  withService(async ({ operations }) => {
    const declared = operationsByStatus(operations)
    const missing = Object.keys(statuses).filter((status) => !declared.has(status))
    t.strictSame(missing.sort(), ofNoOperation.toSorted())
  }),
)

/** They name fields of the report form, and parameters of commands that operators alone send. */
const ofFormAndOperators = [
  ...['error-category', 'error-contact', 'error-endTime', 'error-hash', 'error-heldSeconds', 'error-text'],
  'error-tier',
]

t.test('every status that clients get is in the table, or names a parameter', (t) =>
  withService(async ({ operations }) => {
    const known = new Set([...Object.keys(statuses), ...operationsByStatus(operations).keys()])
    const ofOperators = /^(?:libs\/(?:admin|cluster)|apps\/(?:ctl|standalone))\//
    const files = tracked.filter(
      (file) => /^(?:apps|libs)\/[\w-]+\/src\/.*\.ts$/.test(file) && !ofOperators.test(file),
    )
    const thrown = files.flatMap((file) =>
      [...read(file).matchAll(/(?:new RefusalError|refuse)\(\s*'(error-\w+)'/g)].map(
        ([, status = '']) => status,
      ),
    )
    t.ok(thrown.length > 50)
    t.strictSame([...new Set(thrown)].filter((status) => !known.has(status)).sort(), ofFormAndOperators)
  }),
)

t.test('the acceptance suite knows the HTTP code of every status', async (t) => {
  const codes = Object.entries(statuses).map(([status, { code }]) => [status, code] as const)
  t.strictSame(httpCodes, Object.fromEntries(codes.filter(([, code]) => code !== 400)))
})

/** Statuses of requests that no page sends. Owners need no password. */
const ofNoPage =
  /^error-(body|host|idempotencyKey|request|alreadyDone|expect|headerSize|passwordRequired|passwordWrong)$/

t.test('pages have words for every status of the operations that they call', (t) =>
  withService(async ({ operations }) => {
    const wordsIn = (name: string) =>
      [...read(`libs/web/src/assets/${name}.js`).matchAll(/^ {2}'(error-\w+)': '/gm)].map(
        ([, status]) => status,
      )
    const calls: Record<string, string[]> = {
      upload: ['POST /uploadfile'],
      profile: [...read('libs/web/src/assets/profile.js').matchAll(/call\('([A-Z]+)', ['`]([^'`?]+)/g)].map(
        ([, method, path = '']) => `${method} ${path.replace(/\$\{[^}]+\}/g, '{}')}`,
      ),
    }
    for (const [page, called] of Object.entries(calls)) {
      const words = [...wordsIn('page'), ...wordsIn(page)]
      const answered = [...operationsByStatus(operations)].filter(
        ([status, by]) =>
          status in statuses &&
          !ofNoPage.test(status) &&
          by.some((name) => called.includes(name.replace(/\{\w+\}/g, '{}'))),
      )
      t.ok(answered.length > 5, `${page} calls operations`)
      for (const [status] of answered)
        t.ok(words.includes(status), `libs/web/src/assets/${page}.js: ${status}`)
    }
  }),
)

t.test('each endpoint and theme of the acceptance table has a section in the contract', async (t) => {
  const text = read(contract)
  for (const endpoint of endpoints()) {
    const title = themes[endpoint] ?? endpoint
    const section = sectionOf(text, title)
    t.ok(section, `${endpoint}: a section "${title}" of ${contract}`)
    for (const row of allRows().filter((name) => name.startsWith(`${endpoint} · `))) {
      const [, name = ''] = row.split(' · ')
      // A parameter, a status or a route; other rows are words about what the section says.
      if (
        /^(error-)?[a-z]+[A-Z]\w+$|^error-\w+$|^(GET|POST|PUT|DELETE) \//.test(name) &&
        !(endpoint in themes)
      )
        t.ok((ofEveryOperation + section).includes(name.replace(/^error-(?=\w+$)/, '')), row)
    }
  }
})

t.test('the contract and the acceptance table have every attribute and every member of an item', (t) =>
  withService(async ({ operations }) => {
    const title = 'PUT /contents/{contentId}/update'
    const operation = operations['/contents/{contentId}/update']?.put
    const attributes = operation?.requestBody?.content?.['application/json']?.schema?.oneOf ?? []
    t.ok(attributes.length > 0, 'the operation declares its attributes')
    const members = operation?.responses?.['200']?.content?.['application/json']?.schema?.properties?.data
    const resources = sectionOf(read(contract), 'Resources')
    const sectionsOfValues = resources + sectionOf(read(contract), title)
    const fields = cellsOf(resources).flatMap(([names = '', ofFiles, ofFolders]) => {
      const of = [...(ofFiles ? ['files'] : []), ...(ofFolders ? ['folders'] : [])].join(', ')
      return (names.match(/(?<=`)\w+(?=`)/g) ?? []).map((name) => ({ name, of }))
    })
    for (const name of Object.keys(members?.properties ?? {}))
      t.ok(
        fields.some((field) => field.name === name),
        `Resources, table of fields: ${name}`,
      )
    for (const kind of ['files', 'folders'] as const) {
      const shown = Object.keys(shapeOf(presentedWithAll(kind)))
      const named = fields.filter(({ of }) => of.split(', ').includes(kind)).map(({ name }) => name)
      const known = Object.keys(members?.properties ?? {})
      t.strictSame(new Set(shown), new Set(named.filter((name) => known.includes(name))), `fields of ${kind}`)
    }
    const rows = new Map(
      cellsOf(sectionOf(read(contract), title)).map(([name, of, value = '']) => [name, { of, value }]),
    )
    const covered = allRows()
    const kept = sectionOf(read(contract), 'POST /contents/copy')
      .replace(/\s+/g, ' ')
      .match(/\bkeeps? [^.;]*/g)
    for (const { title: name, properties } of attributes) {
      t.match(kept?.join(), new RegExp(`\\b${name}\\b`), `${contract}, copy: whether ${name} is kept`)
      const row = rows.get(`\`${name}\``)
      const value = row?.value
      t.not(row, undefined, `${title}, table of attributes: ${name}`)
      t.ok(
        fields.some((field) => field.name === name && field.of === row?.of),
        `${title} and Resources: who has ${name}`,
      )
      const max = properties.attributeValue.anyOf.find(({ maxLength }) => maxLength !== undefined)?.maxLength
      const rule = new RegExp(
        `^(- \\*\\*${name}s?\\*\\*|\\| \`${name}\`).* ${max?.toLocaleString('en-US')} `,
        'mi',
      )
      if (max !== undefined) t.match(sectionsOfValues, rule, `the contract: characters of ${name}`)
      // For tags the table has the limit of one tag.
      const bound = name === 'tags' ? tagCodePointsMax : max
      if (bound !== undefined)
        t.match(
          limitOf(name.replace(/s$/, '')),
          new RegExp(`(^| )${bound.toLocaleString('en-US')}( |$)`),
          `${contract}, Limits: ${name}`,
        )
      const isRemovable = properties.attributeValue.anyOf.some((values) => values.enum?.includes(null))
      t.equal(/empty removes/.test(value ?? ''), isRemovable, `${title}: empty removes ${name}`)
      // What the row does not say is a rule of Resources: "**Names** have …".
      if (/^(see Resources|empty removes \w+|)$/.test(value ?? ''))
        t.match(resources, new RegExp(`^- \\*\\*${name}s?\\*\\* `, 'mi'), `Resources: the rule of ${name}`)
      for (const cell of [name, `error-${name}`])
        t.ok(covered.includes(`${title} · ${cell}`), `test/acceptance/coverage.ts: ${title} · ${cell}`)
    }
  }),
)

t.test('text is wrapped; code, tables, headings and code spans stay whole', async (t) => {
  const long = 'a word of a sentence '.repeat(8).trim()
  const lines = (page: string) => wrapPage(page).split('\n')
  const [first = '', second = ''] = lines(long)
  t.ok(first.length <= 120 && first.length > 110)
  t.equal(`${first} ${second}`, long)
  t.strictSame(
    lines(`  1. ${long}\n     more\n- next`).map((line) => line.slice(0, 6)),
    ['  1. a', '     a', '- next'],
  )
  for (const whole of [
    `# ${long}`,
    `| ${long} |`,
    `\`\`\`sh\n${long}\n\`\`\``,
    `\`${long}\``,
    `> ${long}`,
    long.slice(0, 120),
  ])
    t.equal(wrapPage(whole), whole)
  const [, behind = ''] = lines(`${'x'.repeat(110)} word - \`npm run x -- --y\` and so on`)
  t.match(behind, /^(word - )?`npm run x -- --y`/, 'no mark begins a line, and no span is broken')
})

t.test('READMEs are short', async (t) => {
  t.ok(Buffer.byteLength(read('README.md')) <= readmeBytesMax)
  for (const file of pages.filter((name) => /^(apps|libs)\/[^/]+\/README\.md$/.test(name))) {
    const text = read(file)
    t.ok(text.split('\n').length - 1 <= partLinesMax, `${file}: lines`)
    t.ok(Buffer.byteLength(text) <= partBytesMax, `${file}: bytes; reasons go to DESIGN.md`)
    t.match(text, /^\*\*Promise\.?\*\*/m, `${file} has its promise`)
  }
})

t.test('the map of the design has every app and lib', async (t) => {
  const map = sectionOf(read('libs/DESIGN.md'), 'The map')
  const packages = tracked.filter((name) => /^(apps|libs)\/[^/]+\/package\.json$/.test(name))
  for (const name of packages)
    t.ok(map.includes(`\`${dirname(name)}\``), `libs/DESIGN.md, The map: ${dirname(name)}`)
})

t.test('the design says of every app and lib why it is one, in one sentence', async (t) => {
  const reasons = sectionOf(read('libs/DESIGN.md'), 'Why a room is a room')
  const rows = [...reasons.matchAll(/^\| `((?:apps|libs)\/[\w-]+)` \| (.+) \|$/gm)]
  const packages = tracked.filter((name) => /^(apps|libs)\/[^/]+\/package\.json$/.test(name))
  t.same(rows.map(([, room]) => room).sort(), packages.map(dirname).sort())
  for (const [, room = '', reason = ''] of rows) t.match(reason, /^[A-Z][^.]+\.$/, room)
})

t.test('the page of the capacity has a result of each case that is simulated', async (t) => {
  const page = read('infra/CAPACITY.md')
  const [, rows = ''] = /^\| case \|.*\n\| -.*\n((?:\|.*\n)+)/m.exec(page) ?? []
  t.strictSame(
    [...rows.matchAll(/^\| (.*?) \|/gm)].map(([, name]) => name),
    cases.map(({ name }) => name),
  )
})

t.test('notes of the laboratory have a date', async (t) => {
  const notes = pages.filter((name) => name.startsWith('bench/NOTES-'))
  for (const file of notes) t.match(read(file), /^# .* \([A-Z][a-z]+ 20\d\d\)$/m, file)
})

/** What the examples of a page use and do not show. */
const given: Readonly<Record<string, string>> = {
  'libs/accounts/README.md': `
    declare const accounts: import('@holdfast/accounts').AccountClient
    declare const clock: import('@holdfast/kernel').Clock
    declare const accountId: string`,
  'libs/http-kit/DESIGN.md': `
    declare const answers: import('@holdfast/http-kit').AnswerBudget
    declare const request: import('fastify').FastifyRequest
    declare const response: import('node:http').ServerResponse
    declare const pieces: Iterable<string>
    declare const pieceBytes: number
    declare function written(to: typeof response, piece: string): Promise<void>`,
  'libs/membership/README.md': `
    type Members = ReturnType<import('@holdfast/membership').Membership['members']>
    declare const membership: import('@holdfast/membership').Membership
    declare function hosts(members: Members): ConstructorParameters<typeof Placement>[0]`,
}

t.test('examples of code in pages compile', async (t) => {
  const folder = t.testdir({
    'tsconfig.json': JSON.stringify({
      extends: join(root, 'tsconfig.json'),
      include: ['*.ts', join(root, 'libs/*/src/**/*.d.ts')],
    }),
  })
  const examples = pages.flatMap((page) =>
    [...read(page).matchAll(/^ *```ts\n(.*?)^ *```$/gms)].map(([, code = '']) => ({ page, code })),
  )
  for (const [at, { page, code }] of examples.entries())
    writeFileSync(
      join(folder, `${page.replaceAll(/[/.]/g, '-')}-${at}.ts`),
      `${code}\nexport {}\n${given[page] ?? ''}\n`,
    )
  const { stdout } = spawnSync(join(root, 'node_modules/.bin/tsc'), ['-p', folder], { encoding: 'utf8' })
  t.ok(examples.length > 0)
  t.equal(stdout, '')
  for (const page of Object.keys(given))
    t.ok(
      examples.some((example) => example.page === page),
      `${page} has examples`,
    )
})

t.test('files that a page names are there', async (t) => {
  // Notes describe the past.
  for (const page of pages.filter((name) => !name.startsWith('bench/NOTES-') && name !== 'CHANGELOG.md'))
    for (const [, name = ''] of read(page).matchAll(/`([\w./-]+\.(?:ts|mjs|proto|md|toml|txt|yaml))`/g))
      if (!name.startsWith('.')) t.ok(resolved(page, name), `${page} names ${name}`)
})

t.test('variables that a page names are settings, with valid values', async (t) => {
  const schema: Readonly<Record<string, { secret: boolean; parse(text: string): unknown }>> = {
    ...settings,
    ...clusterSettings,
  }
  const code = tracked
    .filter((file) => /\.(ts|mjs|js|sh)$/.test(file))
    .map(read)
    .join('\n')
  const isSetting = (name: string) => name in schema || schema[name.replace(/_FILE$/, '')]?.secret === true
  // Variables of tests, and of the servers' own files.
  const isRead = (name: string) => new RegExp(`env\\.${name}\\b|Reference\\('${name}'\\)`).test(code)
  for (const page of pages.filter((name) => !name.startsWith('bench/NOTES-') && name !== 'CHANGELOG.md'))
    for (const [, name = '', value] of read(page).matchAll(
      /\b(HOLDFAST_[A-Z0-9_]+(?<!_)\b)(?:=([\w./:-]+))?/g,
    )) {
      t.ok(isSetting(name) || isRead(name), `${page} names ${name}`)
      if (value !== undefined && schema[name] !== undefined)
        t.doesNotThrow(() => schema[name]?.parse(value), `${page}: ${name}=${value}`)
    }
})

t.test('the field of every setting is used outside of the settings', async (t) => {
  const used = sources
    .filter((file) => /^(apps|libs)\/[^/]+\/src\//.test(file) && !file.startsWith('libs/config/'))
    .map(read)
    .join('\n')
  const secret = { HOLDFAST_NODE_NAME: 'node1', HOLDFAST_CLUSTER_SECRET: 'a-secret-of-this-test' }
  const { config, secrets } = readClusterConfig(secret, { readSecret: () => '' })
  const names = namesIn({ ...config, ...secrets })
  t.ok(names.size > 80)
  for (const name of names) t.match(used, new RegExp(`\\b${name}\\b`), `the field ${name}`)
})

t.test('defaults that a page names are those of the settings', async (t) => {
  const schema: Readonly<Record<string, { fallback: string }>> = { ...settings, ...clusterSettings }
  let found = 0
  for (const page of pages)
    for (const [, name = '', before, behind] of read(page).matchAll(
      /`(HOLDFAST_\w+)(?:=[^`]*)?` \((?:default `([^`]*)`|`?([^`)]*?)`? by default)/g,
    )) {
      found += 1
      t.equal(before ?? behind, schema[name]?.fallback, `${page}: the default of ${name}`)
    }
  t.ok(found > 1, 'the pattern finds defaults')
})

t.test('sections that pages and comments refer to are there', async (t) => {
  let found = 0
  for (const file of [...pages, ...sources.filter((name) => name !== 'test/documents.test.ts')])
    for (const { document, section } of references(file)) {
      found += 1
      const target = resolved(file, document)
      t.ok(target, `${file} refers to ${document}`)
      if (target && section !== '') t.ok(headings(target).includes(section), `${file}: ${target}, ${section}`)
    }
  t.ok(found > 10, 'the pattern finds references')
})

/**
 * The file that a name means: beside the page, in its package, under the page's folder, or in the
 * whole repository.
 */
function resolved(from: string, name: string): string | undefined {
  const own = dirname(from)
  const pack = from.split('/').slice(0, 2).join('/')
  const beside = [own, `${own}/src`, pack, `${pack}/src`, '.'].map((folder) => normalize(join(folder, name)))
  return (
    beside.find((path) => tracked.includes(path)) ??
    tracked.find((path) => path.startsWith(`${own}/`) && path.endsWith(`/${name}`)) ??
    (name.endsWith('.md') ? undefined : tracked.find((path) => path.endsWith(`/${name}`)))
  )
}

/** `X.md`, X.md, Section and "Section" in X.md; in code only within comments. */
function references(file: string): { document: string; section: string }[] {
  const text = file.endsWith('.md') ? read(file).replace(/^```.*?^```$/gms, '') : comments(read(file))
  const flat = text.replace(/\s+/g, ' ')
  const behind = /((?:[\w-]+\/)*[A-Z][\w-]*\.md)`?(?:, "?([A-Z][\w ,'-]*\w))?/g
  const before = /"([A-Z][\w ,'-]*\w)" (?:in|of) `?((?:[\w-]+\/)*[A-Z][\w-]*\.md)/g
  return [
    ...[...flat.matchAll(behind)].map(([, document = '', section = '']) => ({ document, section })),
    ...[...flat.matchAll(before)].map(([, section = '', document = '']) => ({ document, section })),
  ]
}

function comments(source: string): string {
  const lines = source.split('\n').filter((line) => /^\s*(\/\*\*?|\*|\/\/|#)/.test(line))
  return lines.map((line) => line.replace(/^\s*(\/\*\*?|\*\/|\*|\/\/|#) ?/, '')).join('\n')
}

function headings(page: string): string[] {
  return [...read(page).matchAll(/^#+ (.*)$/gm)].map(([, heading = '']) => heading)
}

/** An item in which nothing is empty. */
function presentedWithAll(kind: 'files' | 'folders'): PresentedItem {
  const given: Record<string, unknown> = {
    isFolder: kind === 'folders',
    blob: { id: Buffer.alloc(48) },
    passwordStatus: 'passwordOk',
  }
  const item = new Proxy({} as PresentedItem['item'], { get: (_, name) => given[String(name)] ?? true })
  return { item, servers: ['store1'], link: 'https://link', directLinks: {}, children: {} }
}

/** The names of fields, at any depth. */
function namesIn(value: object): Set<string> {
  const names = new Set<string>()
  for (const [name, part] of Object.entries(value)) {
    names.add(name)
    if (typeof part === 'object' && part !== null && !Array.isArray(part))
      for (const below of namesIn(part)) names.add(below)
  }
  return names
}

/** From the table of limits, whose rows may have several: "name, tag", "255, 25". */
function limitOf(what: string): string | undefined {
  for (const [names = '', values = ''] of cellsOf(sectionOf(read(contract), 'Limits'))) {
    const at = names.split(', ').indexOf(what)
    if (at >= 0) return values.split(', ')[at]
  }
  return undefined
}

/** Rows of a section's tables. */
function cellsOf(section: string): string[][] {
  const lines = section.split('\n').filter((line) => line.startsWith('| '))
  return lines.map((line) =>
    line
      .split('|')
      .slice(1, -1)
      .map((cell) => cell.trim()),
  )
}

/** From a heading to the next one; empty where there is no such heading. */
function sectionOf(text: string, title: string): string {
  const [, body = ''] = text.split(new RegExp(`^#+ ${title.replace(/[{}/]/g, '\\$&')}$`, 'm'))
  return body.split(/^#/m, 1)[0] ?? ''
}
