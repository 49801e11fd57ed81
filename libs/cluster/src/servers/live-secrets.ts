/**
 * Secrets that an operator may replace while the process runs. Their files are read again every few
 * seconds; new connections and calls use what is read then. A value that is not valid changes
 * nothing and is reported once.
 */
import type { ClusterSecrets } from '@holdfast/config'
import type { Logger } from 'pino'

/** How soon a new secret counts. */
const rereadDefaultMs = 5_000

export interface LiveSecretsOptions {
  /** @throws SettingsFault */
  read(): ClusterSecrets
  log: Logger
  rereadMs?: number
}

/** @returns an object whose fields always have the current values */
export function liveSecrets({
  read,
  log,
  rereadMs = rereadDefaultMs,
}: LiveSecretsOptions): ClusterSecrets & { close(): void } {
  let current = read()
  let reported: string | undefined
  const reread = () => {
    try {
      const next = read()
      reported = undefined
      if (JSON.stringify(next) === JSON.stringify(current)) return
      current = next
      log.info('secrets were replaced')
    } catch (error) {
      const { message } = error as Error
      if (message !== reported) log.error({ err: error }, 'new secrets cannot be used; the last ones count')
      reported = message
    }
  }
  const timer = setInterval(reread, rereadMs)
  timer.unref()
  return {
    get smtpUrl() {
      return current.smtpUrl
    },
    get adminToken() {
      return current.adminToken
    },
    get metricsToken() {
      return current.metricsToken
    },
    get clusterSecret() {
      return current.clusterSecret
    },
    get nats() {
      return current.nats
    },
    get cassandra() {
      return current.cassandra
    },
    close: () => clearInterval(timer),
  }
}
