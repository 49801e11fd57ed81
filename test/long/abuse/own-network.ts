/**
 * A separate network for the suite: loopback alone, in which every address of 127.0.0.0/8 and of
 * 2001:db8::/32 belongs to the machine, so that many clients are many addresses, and nothing
 * leaves. Where the machine allows no namespace, its own loopback is used.
 */
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'

const variable = 'HOLDFAST_TEST_OWN_NETWORK'
const main = join(import.meta.dirname, 'main.ts')
const prepare =
  'ip link set lo up && sysctl -qw net.ipv6.ip_nonlocal_bind=1 && ip -6 route add local 2001:db8::/32 dev lo && exec "$@"'

/** The command that runs the abuse table with these options, and its environment. */
export function abuseCommand(options: readonly string[]): {
  command: string
  args: string[]
  env: NodeJS.ProcessEnv
} {
  const node = [process.execPath, main, ...options]
  const inside = (command: readonly string[]) => [
    ...(process.getuid?.() === 0 ? [] : ['--map-root-user']),
    ...['--net', 'sh', '-c', prepare, 'sh', ...command],
  ]
  const can = spawnSync('unshare', inside(['true'])).status === 0
  if (!can) return { command: process.execPath, args: node.slice(1), env: process.env }
  return { command: 'unshare', args: inside(node), env: { ...process.env, [variable]: '1' } }
}

/** Whether this process is in it. */
export function isOwnNetwork(): boolean {
  return process.env[variable] === '1'
}
