/** Rendered files and a directory that holds them. */
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'

/** Lists what a render wrote. Only these files are ever removed. */
const listName = '.holdfast-rendered'
/** The list of a render that was interrupted before all others. */
const begun = `${listName}.new`

export interface Difference {
  path: string
  /** In the directory, against the deployment's file. */
  state: 'missing' | 'changed' | 'left over'
}

/** @returns sorted by path; empty when the directory holds just what is rendered. */
export function differences(files: ReadonlyMap<string, string>, directory: string): Difference[] {
  const found: Difference[] = []
  for (const [path, text] of files) {
    const place = join(directory, path)
    if (!existsSync(place)) found.push({ path, state: 'missing' })
    else if (readFileSync(place, 'utf8') !== text) found.push({ path, state: 'changed' })
  }
  for (const path of writtenBefore(directory))
    if (!files.has(path) && existsSync(join(directory, path))) found.push({ path, state: 'left over' })
  return found.sort((a, b) => (a.path < b.path ? -1 : 1))
}

/**
 * Makes the directory hold just what is rendered. Files that no render wrote stay.
 * @throws Error when the directory holds something else than an earlier render
 */
export function writeOutput(files: ReadonlyMap<string, string>, directory: string): void {
  const list = join(directory, listName)
  if (!existsSync(list) && existsSync(directory) && readdirSync(directory).some((name) => name !== begun))
    throw new Error(`${directory} holds files that were not rendered; name an empty folder`)
  mkdirSync(directory, { recursive: true })
  const found = differences(files, directory)
  // An interrupted render can be repeated: the list names all that it may have written.
  writeList(list, new Set([...writtenBefore(directory), ...files.keys()]))
  for (const { path, state } of found) {
    const place = join(directory, path)
    if (state === 'left over') rmSync(place)
    else {
      mkdirSync(dirname(place), { recursive: true })
      writeWhole(place, files.get(path) ?? '')
    }
  }
  writeList(list, files.keys())
}

function writeList(list: string, paths: Iterable<string>): void {
  writeWhole(list, `${[...paths].join('\n')}\n`)
}

function writtenBefore(directory: string): string[] {
  const list = join(directory, listName)
  if (!existsSync(list)) return []
  // A list that was edited must not lead out of the directory.
  return readFileSync(list, 'utf8')
    .split('\n')
    .filter((path) => path !== '' && !path.startsWith('/') && !path.split('/').includes('..'))
    .filter((path) => statSync(join(directory, path), { throwIfNoEntry: false })?.isFile())
}

function writeWhole(place: string, text: string): void {
  writeFileSync(`${place}.new`, text)
  renameSync(`${place}.new`, place)
}
