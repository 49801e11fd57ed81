/** For tests of what uses certificates. */
import { readFileSync } from 'node:fs'
import { TlsFiles, type TlsPaths } from './tls-files.ts'

/** Files that are read again by `reload` alone. */
export function openTlsFiles(paths: TlsPaths): TlsFiles {
  return TlsFiles.open(
    paths,
    { read: (path) => readFileSync(path, 'utf8'), onReload: undefined, onFault: undefined },
    { reloadMs: 3_600_000 },
  )
}
