/** An API frontend of a cluster. */
import { runClusterProcess } from '@holdfast/cluster'
import { startApi } from './start.ts'

await runClusterProcess(process.env, startApi)
