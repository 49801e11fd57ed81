export {
  type Config,
  describeSettings,
  readConfig,
  type Secrets,
  StartFault,
  settings,
} from '@holdfast/process'
export { type Standalone, type StandaloneOptions, startStandalone } from './app.ts'
