import type { ClusterConfig, ClusterSecrets, SettingDescription } from '@holdfast/config'
import type { Logger } from 'pino'

/** What each process of a cluster starts with. */
export interface ClusterStart {
  config: ClusterConfig
  secrets: ClusterSecrets
  /** For the operator. */
  settings: readonly SettingDescription[]
  log: Logger
}
