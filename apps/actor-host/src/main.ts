/** A host of accounts in a cluster. */
import { runClusterProcess } from '@holdfast/cluster'
import { startActorHost } from './start.ts'

await runClusterProcess(process.env, startActorHost)
