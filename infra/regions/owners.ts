/**
 * Who may read a secret, a key or a rendered file of a host. No other user may: a proxy is on the
 * internet.
 */
import { basename } from 'node:path'
import type { HostRole } from './roles.ts'

export interface Owner {
  /** As `chown` takes it. */
  users: string
  mode: '640' | '644'
}

export interface HostOfFile {
  roles: readonly HostRole[]
  proxy: 'caddy' | 'nginx'
}

/** @param path below the folders of secrets and certificates */
export function ownerOf(path: string, { roles, proxy }: HostOfFile): Owner {
  const name = basename(path)
  // Cassandra's files have its keys, too.
  const hasKey = name === 'cassandra.pem' || name === 'internode.pem'
  if (name.endsWith('.pem') && !hasKey) return { users: 'root:root', mode: '644' }
  // The first process of nginx reads keys as root.
  const reader = proxy === 'caddy' ? 'caddy' : 'root'
  const groups: Record<string, string> = {
    'cassandra-admin-password': 'root',
    'cassandra.pem': 'cassandra',
    'internode.pem': 'cassandra',
    'proxy.key': reader,
    'public.key': reader,
    'prometheus.key': 'prometheus',
  }
  // Prometheus shows it to admin hosts, and reads no other secret.
  const user = name === 'metrics-token' && roles.includes('prometheus') ? 'prometheus' : 'root'
  return { users: `${user}:${groups[name] ?? 'holdfast'}`, mode: '640' }
}

/** Of a rendered file. Anyone who knows the address of a webhook can send it alerts. */
export function ownerOfRendered(path: string): Owner {
  return path === '/etc/prometheus/alertmanager.yml'
    ? { users: 'root:prometheus', mode: '640' }
    : { users: 'root:root', mode: '644' }
}
