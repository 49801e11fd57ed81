/** Archives as common readers of ZIPs see them. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import yauzl, { type Entry, type ZipFile } from 'yauzl'

const run = promisify(execFile)

/** Entries of an archive as a reader of ZIPs sees them: name → content, folders end in `/`. */
export async function unzip(archive: Buffer): Promise<Map<string, Buffer>> {
  const zip = await promisify(openBuffer)(archive)
  const entries = new Map<string, Buffer>()
  return new Promise((resolve, reject) => {
    zip.once('error', reject)
    zip.once('end', () => resolve(entries))
    zip.on('entry', (entry: Entry) => {
      contentOf(zip, entry).then((content) => {
        if (entries.has(entry.fileName)) reject(new Error(`${entry.fileName} twice`))
        entries.set(entry.fileName, content)
        zip.readEntry()
      }, reject)
    })
    zip.readEntry()
  })
}

function openBuffer(archive: Buffer, done: (error: Error | null, zip: ZipFile) => void): void {
  yauzl.fromBuffer(archive, { lazyEntries: true, validateEntrySizes: true }, done)
}

async function contentOf(zip: ZipFile, entry: Entry): Promise<Buffer> {
  if (entry.fileName.endsWith('/')) return Buffer.alloc(0)
  const stream = await new Promise<AsyncIterable<Buffer>>((resolve, reject) =>
    zip.openReadStream(entry, (error, opened) => (error ? reject(error) : resolve(opened))),
  )
  const chunks: Buffer[] = []
  for await (const chunk of stream) chunks.push(chunk)
  return Buffer.concat(chunks)
}

/** Checks it with common tools; a missing one is skipped silently. */
export async function examine(archive: Buffer): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'holdfast-zip-'))
  try {
    const file = join(folder, 'archive.zip')
    await writeFile(file, archive)
    const tools: [string, string[]][] = [
      ['unzip', ['-tq', file]],
      [
        'python3',
        ['-c', `import sys,zipfile; sys.exit(zipfile.ZipFile(sys.argv[1]).testzip() is not None)`, file],
      ],
    ]
    for (const [tool, args] of tools) {
      await run(tool, args).catch((error: { code?: unknown; stdout?: string; stderr?: string }) => {
        if (error.code === 'ENOENT') return
        assert.fail(`${tool} says ${String(error.code)}: ${error.stdout} ${error.stderr}`)
      })
    }
    assert.equal((await readFile(file)).length, archive.length)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}
