/** What the hosts listen for on the network between them, asked without TLS and by it. */
import { serverPorts } from '../../../infra/regions/roles.ts'
import type { DeployedRegions } from './deployed.ts'

/** @throws Error that names each listener that answers without TLS */
export async function encryptedOf(deployed: DeployedRegions): Promise<string[]> {
  const answers = await Promise.all(
    deployed.hosts.map(async ({ name, internal }) => {
      const said = await deployed.sh(name, asking(internal))
      return said
        .trim()
        .split('\n')
        .map((line) => ({ name, line }))
    }),
  )
  const all = answers.flat()
  const clear = all.filter(({ line }) => !isByTls(line))
  if (clear.length > 0)
    throw new Error(`not by TLS alone: ${clear.map(({ name, line }) => `${name} ${line}`).join(', ')}`)
  const least = deployed.hosts.length * 5
  if (all.length < least) throw new Error(`only ${all.length} listeners were found`)
  return [`  encrypted              ${all.length} listeners of ${deployed.hosts.length} hosts, by TLS alone`]
}

/**
 * For each listener a line: its port, the code of an answer without TLS (000: none), the number of
 * certificates that it shows, and what it says first. Others do not reach loopback.
 */
function asking(internal: string): string {
  return `for port in $(ss -ltnH | awk '$4 !~ /^(127\\.|\\[::1\\])/ { sub(/.*:/, "", $4); print $4 }' | sort -un); do
    at=${internal}:$port
    code=$(curl -s -o /dev/null -m 3 -w '%{http_code}' http://$at/ || true)
    shown=$(timeout 5 openssl s_client -connect $at </dev/null 2>/dev/null | grep -c 'BEGIN CERT' || true)
    first=$(timeout 1 curl -s --no-buffer telnet://$at </dev/null 2>/dev/null | head -c 2000 | tr -d '\\r\\n' || true)
    echo "$port $code $shown $first"
  done`
}

function isByTls(line: string): boolean {
  const [port, code = '', shown] = line.split(' ')
  // It says without TLS who it is, and that it needs TLS.
  if (port === String(serverPorts.nats.client)) return code === '000' && line.includes('"tls_required":true')
  // Proxies send browsers on to https.
  if (port === '80') return code === '308'
  return shown === '1' && ['000', '400'].includes(code)
}
