/** An upload frontend of a cluster. */
import { runClusterProcess } from '@holdfast/cluster'
import { startUpload } from './start.ts'

await runClusterProcess(process.env, startUpload)
