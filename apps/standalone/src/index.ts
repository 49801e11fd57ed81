export { type Config, readConfig, type Secrets } from '@holdfast/config'
export { type Standalone, type StandaloneOptions, startStandalone } from './app.ts'
