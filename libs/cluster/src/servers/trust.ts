/**
 * The authorities and certificates of a process of a cluster: for other processes, NATS and
 * Cassandra.
 */
import { readFileSync } from 'node:fs'
import { type ClusterConfig, SettingsFault } from '@holdfast/config'
import { TlsFiles, type TlsPaths } from '@holdfast/trust'
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
