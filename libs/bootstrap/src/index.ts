export { type AccountHostDeps, accountHostOptions } from './account-host.ts'
export { checkDataFormat, type DataFormat, requireStores, signDataFormat } from './data-format.ts'
export {
  type DescriptorBudget,
  type DescriptorNeeds,
  descriptorLimit,
  divideDescriptors,
} from './descriptors.ts'
export { endWhenFailed } from './end-when-failed.ts'
export { addressFault, listen, urlOf, webUrlOf } from './listening.ts'
export { openMailer } from './mailer.ts'
export { masterRow, openKeptKeyring, openKeyring } from './master-secret.ts'
export { ignoreStdioErrors } from './output.ts'
export { chosenPorts } from './ports.ts'
export { makePrivate } from './private-files.ts'
export { runMain } from './run-main.ts'
export { stopAtSignals } from './signals.ts'
export { exitCodes, StartFault } from './start-fault.ts'
export { commit, version } from './version.ts'
