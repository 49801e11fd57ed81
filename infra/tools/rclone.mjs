// Prints the path of an rclone with the gofile backend; builds it on the first call (half a minute,
// needs Go and its module proxy), and only returns it afterwards. The sources are pinned by
// rclone/go.mod and go.sum; a change of either builds again.
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, renameSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const sources = fileURLToPath(new URL('./rclone/', import.meta.url))
const digest = createHash('sha256')
for (const file of ['go.mod', 'go.sum', 'main.go']) digest.update(readFileSync(join(sources, file)))

const cache = join(process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'holdfast')
const program = join(cache, `rclone-${digest.digest('hex').slice(0, 16)}`)
if (!existsSync(program)) build()
console.log(program)

function build() {
  const version = /rclone\/rclone (v\S+)/.exec(readFileSync(join(sources, 'go.mod'), 'utf8'))?.[1]
  console.error(`rclone: building ${version} with its gofile backend (once) …`)
  mkdirSync(cache, { recursive: true })
  // Built beside its place and renamed, so that an interrupted build leaves nothing that looks
  // complete.
  const unfinished = `${program}.${process.pid}`
  const flags = `-s -w -X github.com/rclone/rclone/fs.Version=${version}`
  const args = [
    'build',
    '-mod=readonly',
    '-buildvcs=false',
    '-trimpath',
    '-ldflags',
    flags,
    '-o',
    unfinished,
    '.',
  ]
  const { status, error } = spawnSync(goProgram(), args, {
    cwd: sources,
    env: { ...process.env, GOFLAGS: '', GO111MODULE: 'on', GOWORK: 'off' },
    stdio: ['ignore', 'inherit', 'inherit'],
  })
  if (error?.code === 'ENOENT') {
    console.error(
      'rclone: Go is missing. Install Go 1.26 or later (Debian: golang-go from backports, or go.dev/dl) and call again.',
    )
    process.exit(2)
  }
  if (status !== 0) {
    console.error('rclone: the build failed (see above); it needs Go 1.26 or later and the Go module proxy.')
    process.exit(1)
  }
  renameSync(unfinished, program)
}

/** On the PATH, or in the location that go.dev recommends. */
function goProgram() {
  const usual = '/usr/local/go/bin/go'
  return spawnSync('go', ['version']).error === undefined || !existsSync(usual) ? 'go' : usual
}
