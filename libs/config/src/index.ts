export {
  type ClusterConfig,
  type ClusterSecrets,
  type Credentials,
  readClusterConfig,
} from './cluster-config.ts'
export {
  type Config,
  describeSettings,
  readConfig,
  type Secrets,
  type SettingDescription,
  settings,
} from './config.ts'
export { type Environment, SettingsFault } from './setting-kinds.ts'
export type { AccountsConfig } from './topics/accounts.ts'
export { clusterSettings, type TlsMode } from './topics/cluster.ts'
