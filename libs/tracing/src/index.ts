export { openTracing } from './open-tracing.ts'
export { tracedAccounts, tracedBlobs, tracedJournals, tracedLookups } from './traced-ports.ts'
