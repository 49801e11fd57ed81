export { StartFault } from '@holdfast/bootstrap'
export { type Config, describeSettings, readConfig, type Secrets, settings } from '@holdfast/config'
export { type Standalone, type StandaloneOptions, startStandalone } from './app.ts'
