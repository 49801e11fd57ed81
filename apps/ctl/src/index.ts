export { ctl, type ExitCode, type Surroundings } from './ctl.ts'
