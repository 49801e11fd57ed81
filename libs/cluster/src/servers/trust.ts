/**
 * The authorities and certificates of a process of a cluster: for other processes, NATS and
 * Cassandra.
 */
import { readFileSync } from 'node:fs'
import { type ClusterConfig, SettingsFault, type TlsMode } from '@holdfast/config'
import type { ListenerTls } from '@holdfast/http-kit'
import { clusterNames, TlsFiles, type TlsPaths } from '@holdfast/trust'
import type { Logger } from 'pino'

export const trustUses = ['peers', 'nats', 'cassandra'] as const
export type TrustUse = (typeof trustUses)[number]

/** Undefined: connections of this use are not encrypted. */
export type ClusterTrust = Readonly<Record<TrustUse, TlsFiles | undefined>>

/**
 * Files are watched from now on.
 * @throws SettingsFault when a file is missing or does not fit the others
 */
export function openTrust(
  { tls, natsTlsCa, cassandra }: Pick<ClusterConfig, 'tls' | 'natsTlsCa' | 'cassandra'>,
  log: Logger,
): ClusterTrust & { close(): void } {
  const opened = new Map<string, TlsFiles>()
  const close = () => {
    for (const files of opened.values()) files.close()
  }
  const open = (paths: TlsPaths) => {
    const name = JSON.stringify(paths)
    const files =
      opened.get(name) ??
      TlsFiles.open(paths, {
        read: (path) => readFileSync(path, 'utf8'),
        onReload: (certificates) => log.info({ certificates: certificates }, 'certificates were replaced'),
        onFault: (error) => log.error({ err: error }, 'new certificates cannot be used; the last ones count'),
      })
    opened.set(name, files)
    return files
  }
  // The process shows one certificate to all; servers may have another authority.
  const toServer = (ca: string | undefined) => (ca === undefined ? undefined : open({ ca, own: tls?.own }))
  try {
    return { peers: tls && open(tls), nats: toServer(natsTlsCa), cassandra: toServer(cassandra.tlsCa), close }
  } catch (error) {
    close()
    throw new SettingsFault([(error as Error).message])
  }
}

/**
 * What the public hosts of a process ask of proxies. Proxies refuse a frontend whose certificate
 * lacks the common name of all frontends, so such a one does not start.
 * @param isFrontend proxies call the process
 * @throws SettingsFault
 */
export function frontendTls(
  { tls, frontendTls: mode }: Pick<ClusterConfig, 'tls' | 'frontendTls'>,
  { peers }: ClusterTrust,
  { isFrontend }: { isFrontend: boolean },
): ListenerTls | undefined {
  if (mode === 'off' || peers === undefined) return undefined
  if (isFrontend && !peers.certificates.own?.names.includes(`DNS:${clusterNames.frontend}`))
    throw new SettingsFault([
      `${tls?.own.cert} lacks the name ${clusterNames.frontend}, which HOLDFAST_FRONTEND_TLS=${mode} needs; ctl certs issue --deployment makes one that has it`,
    ])
  return { context: peers, peerName: clusterNames.proxy, plainToo: mode !== 'required' }
}

/** Of the admin host of a process: its callers prove themselves by tokens, not by certificates. */
export function adminTls(
  { adminTls: mode }: Pick<ClusterConfig, 'adminTls'>,
  { peers }: ClusterTrust,
): ListenerTls | undefined {
  if (mode === 'off' || peers === undefined) return undefined
  return { context: peers, peerName: undefined, plainToo: mode !== 'required' }
}

/** Of addresses at which others reach the public hosts of a process. */
export function frontendScheme({ frontendTls: mode }: Pick<ClusterConfig, 'frontendTls'>): Scheme {
  return schemeOf(mode)
}

/** Of the address of its admin host. */
export function adminScheme({ adminTls: mode }: Pick<ClusterConfig, 'adminTls'>): Scheme {
  return schemeOf(mode)
}

type Scheme = 'http' | 'https'

function schemeOf(mode: TlsMode): Scheme {
  return mode === 'required' ? 'https' : 'http'
}
