/**
 * Writes rendered files into a folder, with changes that let tools read them here: paths of secrets
 * and certificates lead to throwaway ones, and other ports replace those that only root may use.
 */
import { spawnSync } from 'node:child_process'
import { chmodSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { places } from '../regions/platform.ts'
import { tool } from './tools.ts'

export interface Sandbox {
  /** Absolute paths of the laid files whose path below the output directory fits. */
  files(pattern: RegExp): string[]
  folder: string
}

/** Units start these; systemd looks whether they are there. */
const programs = [
  ...[`${places.code}/infra/launch.sh`, '/bin/kill'],
  ...['/usr/sbin/nats-server', '/usr/sbin/cassandra'],
]

/** @param secrets the folder of `makeSecrets` */
export function layOut(rendered: ReadonlyMap<string, string>, folder: string, secrets: string): Sandbox {
  const hosts = new Set<string>()
  for (const [path, text] of rendered) {
    const file = join(folder, path)
    mkdirSync(dirname(file), { recursive: true })
    writeFileSync(file, path.startsWith('hosts/') ? readableHere(path, text, secrets) : text)
    const [, host] = /^(hosts\/[^/]+)\//.exec(path) ?? []
    if (host !== undefined) hosts.add(join(folder, host))
  }
  for (const host of hosts) {
    mkdirSync(join(host, places.etc), { recursive: true })
    symlinkSync(join(secrets, 'secrets'), join(host, places.secrets))
    for (const program of programs) {
      mkdirSync(dirname(join(host, program)), { recursive: true })
      writeFileSync(join(host, program), '#!/bin/sh\n')
      chmodSync(join(host, program), 0o755)
    }
  }
  return {
    folder,
    files: (pattern) =>
      [...rendered.keys()].filter((path) => pattern.test(path)).map((path) => join(folder, path)),
  }
}

function readableHere(path: string, text: string, secrets: string): string {
  if (path.endsWith('.conf') && path.includes('/nginx/'))
    return text
      .replaceAll(places.etc, secrets)
      .replace(/listen (\[::\]:|[\d.]+:)?(\d+)/g, (_, address: string | undefined, port: string) =>
        address?.startsWith('[')
          ? `listen [::]:${Number(port) + 20_000}`
          : `listen ${address === undefined ? '' : '127.0.0.1:'}${Number(port) + 20_000}`,
      )
  // Units stay as they are: systemd looks for their programs below the root of the host.
  return path.includes('/systemd/') ? text : text.replaceAll(places.etc, secrets)
}

/**
 * Throwaway passwords and certificates, in their places below `/etc/holdfast`. Each certificate is
 * its own authority.
 * @param names of the public certificate
 */
export function makeSecrets(folder: string, names: readonly string[] = []): void {
  for (const name of ['secrets', 'tls']) mkdirSync(join(folder, name), { recursive: true })
  for (const name of [
    'admin-token',
    'metrics-token',
    'nats-password',
    'cassandra-password',
    'cluster-secret',
  ])
    writeFileSync(join(folder, 'secrets', name), 'only-for-the-check')
  writeFileSync(
    join(folder, 'secrets/nats-users.conf'),
    'HOLDFAST_PASSWORD: "only-for-the-check"\nSYSTEM_PASSWORD: "only-for-the-check-too"\n',
  )
  writeFileSync(
    join(folder, 'secrets/nats-routes.conf'),
    'ROUTES: ["nats://holdfast:only-for-the-check@10.1.0.11:6222"]\n',
  )
  const { path, env } = tool('openssl')
  const namesExtension = ['-addext', `subjectAltName=${names.map((name) => `DNS:${name}`).join()}`]
  for (const name of ['node', 'public', 'proxy', 'prometheus', 'ca']) {
    const key = join(folder, 'tls', `${name}.key`)
    const made = spawnSync(
      path,
      [
        ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes'],
        ...['-keyout', key, '-out', join(folder, 'tls', `${name}.pem`), '-days', '2', '-subj', `/CN=${name}`],
        ...(name === 'public' && names.length > 0 ? namesExtension : []),
      ],
      { env, encoding: 'utf8' },
    )
    if (made.status !== 0) throw new Error(`openssl makes no certificate: ${made.stderr}`)
  }
}
