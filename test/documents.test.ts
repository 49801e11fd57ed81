/**
 * Rules about the documents: pages that a program writes are up to date, READMEs are short, and
 * what a page or a comment refers to is there.
 */
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import t from 'tap'
import { documents } from '../infra/documents/documents.ts'
import { withService } from '../infra/documents/service.ts'

const root = join(import.meta.dirname, '..')
const read = (file: string) => readFileSync(join(root, file), 'utf8')
const tracked = execFileSync('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], {
  cwd: root,
  encoding: 'utf8',
})
  .split('\0')
  .filter((file) => file !== '' && existsSync(join(root, file)))
const pages = tracked.filter((file) => file.endsWith('.md'))
const sources = tracked.filter((file) => /\.(ts|mjs|js|proto)$/.test(file) && !file.includes('/gen/'))

/** A README of the whole is read in some minutes, that of a part is one screen. */
const readmeBytesMax = 8_192
const partLinesMax = 60
const partBytesMax = 5_200
/** Names of ours that are no metrics. */
const keyspaces = ['holdfast_lookups']

t.test('pages that a program writes are what it writes now', (t) =>
  withService((service) => {
    for (const { path, text } of documents) t.equal(read(path), text(service), `${path}: npm run documents`)
    const metrics = read('infra/METRICS.md')
    for (const file of sources.filter((name) => /^(apps|libs)\/[^/]+\/src\//.test(name)))
      for (const [, name = ''] of read(file).matchAll(/'(holdfast_[a-z_]+)'/g))
        t.ok(metrics.includes(`\`${name}\``) || keyspaces.includes(name), `${file}: ${name}`)
  }),
)

t.test('READMEs are short', async (t) => {
  t.ok(Buffer.byteLength(read('README.md')) <= readmeBytesMax)
  for (const file of pages.filter((name) => /^(apps|libs)\/[^/]+\/README\.md$/.test(name))) {
    const text = read(file)
    t.ok(text.split('\n').length - 1 <= partLinesMax, `${file}: lines`)
    t.ok(Buffer.byteLength(text) <= partBytesMax, `${file}: bytes; reasons go to DESIGN.md`)
    t.match(text, /^\*\*Promise\.?\*\*/m, `${file} has its promise`)
  }
})

t.test('notes of the laboratory have a date', async (t) => {
  const notes = pages.filter((name) => name.startsWith('bench/NOTES-'))
  for (const file of notes) t.match(read(file), /^# .* \([A-Z][a-z]+ 20\d\d\)$/m, file)
})

t.test('files that a page names are there', async (t) => {
  // Notes tell of the past.
  for (const page of pages.filter((name) => !name.startsWith('bench/NOTES-') && name !== 'CHANGELOG.md'))
    for (const [, name = ''] of read(page).matchAll(/`([\w./-]+\.(?:ts|mjs|proto|md|toml|txt|yaml))`/g))
      if (!name.startsWith('.')) t.ok(resolved(page, name), `${page} names ${name}`)
})

t.test('sections that pages and comments refer to are there', async (t) => {
  let found = 0
  for (const file of [...pages, ...sources])
    for (const { document, section } of references(file)) {
      found += 1
      const target = resolved(file, document)
      t.ok(target, `${file} refers to ${document}`)
      if (target && section !== '') t.ok(headings(target).includes(section), `${file}: ${target}, ${section}`)
    }
  t.ok(found > 10, 'the pattern finds references')
})

/**
 * The file that a name stands for: beside the page, in its package, under the page's folder, or in
 * the whole repository.
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
  const behind = /((?:[\w-]+\/)*[A-Z][A-Z-]+\.md)`?(?:, "?([A-Z][\w ,'-]*\w))?/g
  const before = /"([A-Z][\w ,'-]*\w)" (?:in|of) `?((?:[\w-]+\/)*[A-Z][A-Z-]+\.md)/g
  return [
    ...[...flat.matchAll(behind)].map(([, document = '', section = '']) => ({ document, section })),
    ...[...flat.matchAll(before)].map(([, section = '', document = '']) => ({ document, section })),
  ]
}

function comments(source: string): string {
  const lines = source.split('\n').filter((line) => /^\s*(\/\*\*?|\*|\/\/)/.test(line))
  return lines.map((line) => line.replace(/^\s*(\/\*\*?|\*\/|\*|\/\/) ?/, '')).join('\n')
}

function headings(page: string): string[] {
  return [...read(page).matchAll(/^#+ (.*)$/gm)].map(([, heading = '']) => heading)
}
