/** A tmpfs in a mount namespace of the trial, which ends with it. */
import { spawnSync } from 'node:child_process'
import { mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const variable = 'HOLDFAST_TEST_OBSERVED_DISK'
/** Folder for pages of the dashboards; empty: none. */
export const picturesVariable = 'HOLDFAST_TEST_OBSERVED_PICTURES'
const bytes = 320 * 1024 * 1024
const mounts = 'mount -t tmpfs -o size="$0" small "$1" && shift && exec "$@"'

/** The command that runs the trial with these words. @throws Error where nothing can be mounted */
export function observedCommand(
  words: readonly string[],
  pictures: string,
): {
  command: string
  args: string[]
  env: NodeJS.ProcessEnv
} {
  const path = mkdtempSync(join(tmpdir(), 'holdfast-observed-disk-'))
  const inside = (command: readonly string[]) => [
    ...(process.getuid?.() === 0 ? [] : ['--map-root-user']),
    ...['--mount', 'sh', '-c', mounts, String(bytes), path, ...command],
  ]
  if (spawnSync('unshare', inside(['true'])).status !== 0)
    throw new Error('this machine does not permit mounting a file system')
  const main = join(import.meta.dirname, 'main.ts')
  return {
    command: 'unshare',
    args: inside([process.execPath, main, ...words]),
    env: { ...process.env, [variable]: path, [picturesVariable]: pictures },
  }
}

/** Where it is, within the trial. */
export function smallDisk(): string {
  const path = process.env[variable]
  if (path === undefined) throw new Error('npm run test:long -- --only observed')
  return path
}
