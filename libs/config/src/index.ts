export {
  type ClusterConfig,
  type ClusterSecrets,
  type Config,
  type Credentials,
  clusterSettings,
  describeSettings,
  readClusterConfig,
  readConfig,
  type Secrets,
  type SettingDescription,
  settings,
} from './config.ts'
export { type Environment, SettingsFault } from './setting-kinds.ts'
