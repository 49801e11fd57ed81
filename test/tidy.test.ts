/** Rules about the repository itself. Each failure names the file and what to do. */
import { execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, dirname, extname, join, normalize } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { longFiles, sizedFiles, unsteady } from './forms.ts'
import { listOfPhrases, riddlesIn } from './support/plain-english.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
const tracked = execFileSync('git', ['ls-files', '-z'], { cwd: root, encoding: 'utf8' })
  .split('\0')
  .filter((file) => file !== '' && existsSync(join(root, file)))
const read = (file: string) => readFileSync(join(root, file), 'utf8')
const json = (file: string) => JSON.parse(read(file)) as Record<string, Record<string, string>>
const isText = (file: string) => !['.png', '.ico', '.zip', '.bin', '.gz', '.woff2'].includes(extname(file))
const isSource = (file: string) => /\.(ts|tsx|mjs|js)$/.test(file) && !file.includes('/gen/')

const topLevel = new Set([
  ...['apps', 'libs', 'proto', 'infra', 'bench', 'test', '.ci', '.github'],
  ...['README.md', 'CONTRIBUTING.md', 'CHANGELOG.md', 'SECURITY.md', 'LICENSE'],
  ...['package.json', 'package-lock.json', 'tsconfig.json', 'biome.jsonc', 'buf.yaml', 'buf.gen.yaml'],
  ...[
    '.gitignore',
    '.gitattributes',
    '.npmrc',
    '.oxlintrc.json',
    '.taprc',
    '.dockerignore',
    '.editorconfig',
    '.nvmrc',
  ],
])

/**
 * Libs from the bottom up: each may depend only on those of lower layers. Adapters are in none:
 * they are chosen by what puts parts together.
 */
const layers = [
  ['kernel', 'wire'],
  ['access', 'placement', 'bus', 'journal', 'blob-store', 'membership', 'mail', 'trust', 'level-files'],
  ['content-tree', 'replication', 'moderation', 'backup', 'accounts'],
  ['actor-runtime', 'http-kit'],
  ['admin', 'config', 'downloads', 'web', 'tracing'],
  ['bootstrap'],
  // Shared by the apps of a cluster. They build parts and choose adapters, as apps do.
  ['cluster'],
  ['storage-role'],
]
const assemblingLayer = 6
const isAdapter = (lib: string) => /-(nats|level|cassandra|grpc)$/.test(lib) || lib === 'chunk-store'
const layerOf = (lib: string) => (isAdapter(lib) ? 2 : layers.findIndex((layer) => layer.includes(lib)))

/** Another build of one may crash the process: a change of version is a decision. */
const nativeBindings = [
  '@napi-rs/blake-hash',
  '@node-rs/crc32',
  '@nxtedition/rocksdb',
  'classic-level',
  'koffi',
]

/** Tests that sometimes fail (`test/forms.ts`). */
const unsteadyMax = 0

/** Interfaces of libs that may have optional fields, besides options and what a suite is given. */
const withOptionalFields = new Set([
  // Arguments of one call.
  ...['AdminCaller', 'CallProof', 'NodeBounds', 'PlacedCommit'],
  ...[
    'PlantedFault',
    'PresentView',
    'PullQuery',
    'Question',
    'ScanRange',
    'TransferQuery',
    'WebPage',
    'WholeRing',
  ],
  // What only some engines or platforms have, and what another thread or package sends.
  ...['Catalogue', 'CatalogueAnswer', 'DirectAccess', 'SmtpError'],
])
/**
 * Options that apps wire. A field that an app forgets is a type error. Numbers with a default that
 * only some callers set are apart from them, in a `…Tuning`.
 */
const wired = new Set([
  ...['AccountHostOptions', 'AccountRoundsOptions', 'AnswerBudgetOptions', 'BlockListsOptions'],
  ...['ChunkStoreOptions', 'ClusterAdminOptions', 'HttpHostOptions', 'JoinOptions'],
  ...['LevelMetadataStoreOptions', 'ReconcilerOptions', 'RegionalLookupsOptions', 'TransferLogOptions'],
  ...['CassandraOptions', 'CollectorOptions', 'HoldersOptions', 'LocalNodeOptions'],
  ...[
    'MetadataStoreOptions',
    'NatsBusOptions',
    'NatsMembershipOptions',
    'PullerOptions',
    'ReadThroughOptions',
  ],
  ...['RejoinCheckOptions', 'RemoteBlobStoreOptions', 'ReplicatedBlobStoreOptions', 'ReplicatorOptions'],
  ...['ScrubberOptions', 'ServeBlobStoreOptions', 'StorageRoleOptions', 'TlsFilesOptions'],
])
const isArgument = (name: string) =>
  !wired.has(name) &&
  (/^Opened|(Options|Tuning|Contract|Check|Tools)$/.test(name) || withOptionalFields.has(name))

/** A few of the days before are longer, and history is not rewritten. */
const subjectsSince = '2026-11-27T12:00:00Z'
const subjectMax = 72

/** Larger files are data, and data is generated: `.gitattributes` says of what. */
const fileBytesMax = 200_000

t.test('the top level has only the known entries', async (t) => {
  const unknown = new Set(
    tracked.map((file) => file.split('/', 1)[0] as string).filter((entry) => !topLevel.has(entry)),
  )
  t.strictSame([...unknown], [], 'a new entry needs a reason, here')
})

t.test('every lib and app has a README', async (t) => {
  const missing = packages().filter((folder) => !tracked.includes(`${folder}/README.md`))
  t.strictSame(missing, [])
})

t.test('no file is a collection of things without a name', async (t) => {
  const drawers = tracked.filter((file) => /^(utils?|helpers?|common|misc|types)\.\w+$/.test(basename(file)))
  t.strictSame(drawers, [], 'name the concept that is missing')
})

t.test('an exported name of a class or type means one thing', async (t) => {
  const declared = /^export (?:abstract |declare )?(?:class|interface|type|enum) (\w+)/gm
  // The service, and the programs that prepare machines for it.
  for (const part of [/^(apps|libs)\/[^/]+\/src\//, /^infra\//]) {
    const places = new Map<string, string[]>()
    for (const file of tracked.filter((name) => isSource(name) && part.test(name)))
      for (const [, name = ''] of read(file).matchAll(declared))
        places.set(name, [...(places.get(name) ?? []), file])
    const homonyms = [...places].filter(([, files]) => files.length > 1)
    t.strictSame(homonyms, [], 'rename one of them, or declare it once')
  }
})

t.test('an exported name of a function or constant means one thing', async (t) => {
  const declared = /^export (?:async )?(?:function\*?|const) (\w+)/gm
  // The contract names an operation. The API reads its request, and the core decides it.
  const parts = [/^apps\/api\/src\/operations\//, /^libs\/content-tree\/src\/decide\//]
  const places = new Map<string, Set<string>>()
  for (const file of tracked.filter(
    (name) => isSource(name) && /^(apps|libs)\/[^/]+\/src\/.*\.ts$/.test(name),
  ))
    for (const [, name = ''] of read(file).matchAll(declared))
      places.set(name, (places.get(name) ?? new Set()).add(file))
  const isOperation = (files: string[]) =>
    files.length === 2 && parts.every((part) => files.some((file) => part.test(file)))
  const homonyms = [...places]
    .map(([name, files]) => ({ name, files: [...files] }))
    .filter(({ files }) => files.length > 1 && !isOperation(files))
  t.strictSame(homonyms, [], 'rename one of them, or declare it once')
})

t.test('what a part is made of, set to or keeps has no optional fields', async (t) => {
  // A part that is not wired is a type error. What may be missing is written as undefined.
  const blocks = /^(?:export )?interface (\w+)\b[^{]*\{[\s\S]*?^}/gm
  const isComplete = (file: string, name: string) =>
    file.startsWith('libs/') ? !isArgument(name) : /(Settings|Deps|State|Row)$/.test(name)
  const optional = tracked
    .filter((file) => isSource(file) && /^(apps|libs)\/[^/]+\/src\//.test(file))
    .flatMap((file) =>
      [...read(file).matchAll(blocks)]
        .filter(([, name = '']) => isComplete(file, name))
        .flatMap(([block, name]) =>
          [...block.matchAll(/^ {2}(?:readonly )?(\w+)\?:/gm)].map(
            ([, field]) => `${file}: ${name}.${field}`,
          ),
        ),
    )
  t.strictSame(optional, [])
})

t.test('no file is large, and none is a link', async (t) => {
  const large = tracked.filter((file) => statSync(join(root, file)).size > fileBytesMax)
  const attributes = execFileSync('git', ['check-attr', 'linguist-generated', ...large], { cwd: root })
  t.strictSame(
    String(attributes)
      .split('\n')
      .filter((line) => !/: true$|^$/.test(line)),
    [],
  )
  const modes = execFileSync('git', ['ls-files', '-s'], { cwd: root, encoding: 'utf8' }).split('\n')
  t.strictSame(
    modes.filter((line) => /^(120000|160000) /.test(line)),
    [],
  )
})

t.test('nothing names a machine, and the lock file no registry', async (t) => {
  const machinePath = /(^|[^A-Za-z0-9_.])\/(work|farm)\/[a-z.]/m
  const named = tracked.filter((file) => isText(file) && machinePath.test(read(file)))
  t.strictSame(named, [])
  t.notMatch(read('package-lock.json'), /"resolved": "https?:/, '.npmrc asks for a lock file without hosts')
})

t.test('the subjects of commits fit 72 characters', async (t) => {
  const log = ['log', '--no-merges', `--since=${subjectsSince}`, '--format=%s']
  const subjects = execFileSync('git', log, { cwd: root, encoding: 'utf8' }).split('\n')
  t.strictSame(
    subjects.filter((subject) => subject.length > subjectMax),
    [],
    'the reason is below the subject',
  )
})

t.test('a rule of style is in one style sheet', async (t) => {
  const places = new Map<string, string[]>()
  for (const file of tracked.filter((name) => extname(name) === '.css'))
    for (const [rule] of read(file).matchAll(/^[^\s}@][^{]*\{[^}]*\}/gm))
      places.set(rule, [...(places.get(rule) ?? []), file])
  const repeated = [...places].filter(([, files]) => new Set(files).size > 1)
  t.strictSame(repeated, [], 'what pages share is in base.css of http-kit')
})

t.test('no test is skipped or alone', async (t) => {
  const marked = tracked.filter(
    (file) =>
      /\.test\.tsx?$/.test(file) &&
      /\bt\.(only|skip|todo)\(|\{ *(skip|todo|only) *: *(true|')/.test(read(file)),
  )
  t.strictSame(marked, [])
})

t.test('files of the long run exist, and no further test is unsteady', async (t) => {
  const named = [...Object.keys(longFiles), ...sizedFiles, ...Object.keys(unsteady)]
  t.strictSame(
    named.filter((file) => !tracked.includes(file)),
    [],
  )
  for (const file of sizedFiles) t.match(read(file), 'sizeOf(', `${file} asks for its size`)
  t.ok(
    Object.keys(unsteady).length <= unsteadyMax,
    'fix a test that sometimes fails; this number must not rise',
  )
})

t.test('libs depend downwards, on no adapter and on no app', async (t) => {
  for (const folder of packages().filter((name) => name.startsWith('libs/'))) {
    const lib = basename(folder)
    t.not(layerOf(lib), -1, `${lib} has a layer; a new lib says its own in this file`)
    for (const dependency of ownDependencies(folder)) {
      t.ok(existsSync(join(root, 'libs', dependency)), `${lib} → ${dependency}: a lib`)
      if (layerOf(lib) < assemblingLayer)
        t.notOk(isAdapter(dependency), `${lib} → ${dependency}: adapters are chosen by what assembles`)
      t.ok(layerOf(dependency) < layerOf(lib), `${lib} → ${dependency}: downwards`)
    }
  }
})

t.test(
  'apps are independent; only the one that runs everything in one process depends on others',
  async (t) => {
    for (const folder of packages().filter((name) => name.startsWith('apps/') && name !== 'apps/standalone'))
      for (const dependency of ownDependencies(folder)) {
        t.ok(existsSync(join(root, 'libs', dependency)), `${folder} → ${dependency}: a lib`)
      }
  },
)

t.test('the map of libs/DESIGN.md counts the rooms and their imports', async (t) => {
  const rows = [...read('libs/DESIGN.md').matchAll(/^\| [^|]+ \| (\d+) \| (\d+) \| \d+ \|/gm)]
  const imports = packages().flatMap(ownDependencies).length
  t.strictSame(rows.at(-1)?.slice(1, 3).map(Number), [packages().length, imports])
})

t.test('packages are imported by name, and internals stay internal', async (t) => {
  for (const file of tracked.filter((name) => isSource(name) && /^(apps|libs)\//.test(name))) {
    const own = file.split('/').slice(0, 2).join('/')
    for (const [, specifier = ''] of read(file).matchAll(/\bfrom '([^']+)'/g)) {
      const target = specifier.startsWith('.') ? normalize(join(dirname(file), specifier)) : ''
      const inside =
        target === '' ||
        target.startsWith(`${own}/`) ||
        (file.includes('/test/') && /^(test|infra)\//.test(target))
      if (!inside) t.fail(`${file} reaches into ${specifier}`)
      if (/^@holdfast\/[^/]+\/src/.test(specifier)) t.fail(`${file} reaches into ${specifier}`)
    }
  }
})

t.test('a package imports all that it depends on, and native bindings are exact', async (t) => {
  for (const folder of packages()) {
    const { dependencies = {}, devDependencies = {} } = json(`${folder}/package.json`)
    const code = tracked
      .filter((file) => file.startsWith(`${folder}/`) && /\.(ts|tsx|mjs|js)$/.test(file))
      .map(read)
    for (const name of Object.keys({ ...dependencies, ...devDependencies })) {
      const imported = new RegExp(`['"]${name.replace(/^@types\//, '')}['"/]`)
      t.ok(
        code.some((text) => imported.test(text)),
        `${folder}/package.json: ${name} is imported`,
      )
    }
    for (const name of nativeBindings)
      t.match(dependencies[name] ?? '1.0.0', /^\d/, `${folder}/package.json: ${name} is exact`)
  }
})

t.test('a package shows others no value that only itself uses', async (t) => {
  const texts = tracked.filter(isSource).map((file) => ({ file, text: read(file) }))
  for (const folder of packages()) {
    const index = texts.find(({ file }) => file === `${folder}/src/index.ts`)
    const importing = new RegExp(
      `\\{([^{}]*)\\}\\s*(?:from|= await import\\()\\s*'@holdfast/${basename(folder)}'`,
      'g',
    )
    const used = texts
      .filter(({ file }) => !file.startsWith(`${folder}/`))
      .flatMap(({ text }) => [...text.matchAll(importing)].flatMap(([, names = '']) => names.split(/\W+/)))
    const shown = [...(index?.text ?? '').matchAll(/^export \{([^}]*)\}/gm)]
      .flatMap(([, names = '']) => names.split(','))
      .map((name) => name.trim().replace(/^.* as /, ''))
      .filter((name) => name !== '' && !name.startsWith('type '))
    for (const name of shown) t.ok(used.includes(name), `${folder}/src/index.ts: others use ${name}`)
  }
})

t.test('no file of a package imports itself in a circle, also by types', async (t) => {
  const sources = tracked.filter((name) => isSource(name) && /^(infra|(apps|libs)\/[^/]+\/src)\//.test(name))
  const imports = new Map(
    sources.map((file) => {
      const specifiers = [...read(file).matchAll(/\b(?:from|import) '(\.[^']+)'/g)]
      return [file, specifiers.map(([, specifier = '']) => normalize(join(dirname(file), specifier)))]
    }),
  )
  const done = new Set<string>()
  const walk = (file: string, way: readonly string[]): void => {
    if (way.includes(file)) t.fail([...way.slice(way.indexOf(file)), file].join(' → '))
    if (done.has(file)) return
    done.add(file)
    for (const next of imports.get(file) ?? []) walk(next, [...way, file])
  }
  for (const file of sources) walk(file, [])
})

t.test('the acceptance suite knows the service only through HTTP', async (t) => {
  for (const file of tracked.filter((name) => name.startsWith('test/acceptance')))
    t.notMatch(read(file), /from '@holdfast|from '[./]+(apps|libs)\//, file)
})

t.test('the environment is read in one line of each app, and by no lib', async (t) => {
  const reads = tracked.filter(
    (file) => isSource(file) && /^(apps|libs)\/[^/]+\/src\//.test(file) && read(file).includes('process.env'),
  )
  t.strictSame(
    reads.filter((file) => file.startsWith('libs/')),
    [],
  )
  for (const file of reads) t.ok(read(file).split('process.env').length === 2, `${file} reads it once`)
})

t.test('generated code is what the protocols generate', async (t) => {
  const out = mkdtempSync(join(tmpdir(), 'holdfast-gen-'))
  t.teardown(() => rmSync(out, { recursive: true, force: true }))
  execFileSync(join(root, 'node_modules/.bin/buf'), ['generate', '-o', out], { cwd: root, stdio: 'pipe' })
  const generated = 'libs/wire/src/gen'
  const list = (folder: string) =>
    readdirSync(join(folder, generated), { recursive: true, encoding: 'utf8' })
      .filter((file) => file.endsWith('.ts'))
      .sort()
  t.strictSame(list(root), list(out), 'npm run generate')
  for (const file of list(out))
    t.ok(
      readFileSync(join(out, generated, file), 'utf8') === read(`${generated}/${file}`),
      `${file} is up to date`,
    )
})

t.test('links and names in the pages of the repository exist', async (t) => {
  for (const file of tracked.filter((name) => name.endsWith('.md'))) {
    const text = read(file)
    for (const [, target = ''] of text.matchAll(/\]\(([^)#\s]+)[^)]*\)/g))
      if (!/^[a-z]+:/.test(target))
        t.ok(existsSync(join(root, dirname(file), target)), `${file} links to ${target}`)
    for (const [named] of text.matchAll(/(?<![\w/])(apps|libs)\/[a-z][a-z-]*[a-z](?![\w*…])/g))
      t.ok(existsSync(join(root, named)), `${file} names ${named}`)
  }
})

t.test('scripts of package.json name existing programs', async (t) => {
  for (const [name, script] of Object.entries(json('package.json').scripts ?? {}))
    for (const [program] of script.matchAll(
      /\b(?:apps|libs|infra|test|bench)\/[\w./-]+\.(?:ts|mjs|js|sh)\b/g,
    ))
      t.ok(existsSync(join(root, program)), `npm run ${name}: ${program}`)
})

function packages(): string[] {
  return ['apps', 'libs'].flatMap((kind) =>
    readdirSync(join(root, kind))
      .map((name) => `${kind}/${name}`)
      .filter((folder) => tracked.includes(`${folder}/package.json`)),
  )
}

/** `@holdfast` packages that a package depends on at run time. */
function ownDependencies(folder: string): string[] {
  return Object.keys(json(`${folder}/package.json`).dependencies ?? {})
    .filter((name) => name.startsWith('@holdfast/'))
    .map((name) => name.slice('@holdfast/'.length))
}

t.test('no generator function is made for each answer', async (t) => {
  // V8 gives each one a map in its old space, which keeps what it captures until a full collection.
  const answering = /^(apps\/(api|upload)|libs\/(access|accounts|downloads|http-kit|web))\/src\//
  const inFunction = /^(\s{4,}(async )?\*#?\w+\(|\s+.*\bfunction\s?\*)/
  const found = tracked
    .filter((file) => answering.test(file) && isSource(file))
    .flatMap((file) =>
      read(file)
        .split('\n')
        .flatMap((line, index) => (inFunction.test(line) ? [`${file}:${index + 1}`] : [])),
    )
  t.strictSame(found, [])
})

t.test('comments, messages and pages are in plain English', async (t) => {
  const found = tracked
    .filter((file) => (isSource(file) || /\.(proto|sh|md)$/.test(file)) && file !== listOfPhrases)
    .flatMap((file) =>
      riddlesIn(read(file), { isMarkdown: file.endsWith('.md') }).map((riddle) => `${file}:${riddle}`),
    )
  t.strictSame(found, [])
})

t.test('a phrase of the list is found over a line break', async (t) => {
  const inCode = (text: string) => riddlesIn(text, { isMarkdown: false })
  const onPage = (text: string) => riddlesIn(text, { isMarkdown: true })
  // This file is read, too.
  const phrase = ['sent', 'away'].join(' ')
  t.strictSame(inCode('const a = 1\n// none is sent\n// away\n'), [`2: ${phrase}`])
  t.strictSame(inCode('/**\n * none is sent\n *\n * away\n */\n'), [], 'two paragraphs')
  t.strictSame(inCode('/** It is sent */\naway()\n'), [], 'a comment and code')
  t.strictSame(onPage(`An item:\n- that is sent\n  away and ${phrase}\n`), [`2: ${phrase}`, `3: ${phrase}`])
  t.strictSame(onPage('- it is sent\n- away\n'), [], 'two items')
})

t.test('comments wrap at 100 columns', async (t) => {
  const isTable = (line: string) => /^\s*\* \|/.test(line)
  const inCode = /^\s*(\/\/|\/?\*+( |$))/
  const inScripts = /^\s*#/
  // Behind code. A text with the two slashes is none.
  const trailing = /^(?:[^'"`/]|'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|`(?:\\.|[^`\\])*`|\/(?!\/))*\/\/ /
  const isComment = (file: string, line: string) =>
    file.endsWith('.sh') ? inScripts.test(line) : inCode.test(line) || trailing.test(line)
  const commented = tracked.filter((file) => isSource(file) || /\.(proto|sh)$/.test(file))
  const wide = commented.flatMap((file) =>
    read(file)
      .split('\n')
      .flatMap((line, index) =>
        line.length > 100 && !isTable(line) && isComment(file, line) ? [`${file}:${index + 1}`] : [],
      ),
  )
  t.strictSame(wide, [])
})
