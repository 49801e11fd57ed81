/** For tests of what stores bytes over the network. */
import { silentLog, systemClock } from '@holdfast/kernel'
import type { RemoteBlobStoreOptions } from './client/remote-blob-store.ts'
import type { ServeBlobStoreOptions } from './server/serve-blob-store.ts'

/** Default parts of a server in tests: free ports, without encryption. */
export const plainServer: Omit<ServeBlobStoreOptions, 'secret'> = {
  tls: undefined,
  host: '127.0.0.1',
  controlPort: 0,
  bytesPort: 0,
  bounds: {},
  clock: systemClock,
  log: silentLog,
  tracer: undefined,
}

/** Default parts of its client. */
export const plainRemote: Omit<RemoteBlobStoreOptions, 'control' | 'bytes' | 'secret'> = {
  node: 'a',
  tls: undefined,
  clock: systemClock,
}
