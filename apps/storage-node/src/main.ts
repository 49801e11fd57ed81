/** A storage node of a cluster. */
import { runClusterProcess } from '@holdfast/cluster'
import { startStorageNode } from './start.ts'

await runClusterProcess(process.env, startStorageNode)
