/** Derives keys for the thread that started this one, one at a time. */
import { scryptSync } from 'node:crypto'
import { constants, getPriority, setPriority } from 'node:os'
import { parentPort } from 'node:worker_threads'
import { type Derivation, scryptOptions } from './scrypt-threads.ts'

/**
 * Above that of the process: a ninth of a core beside a busy thread of it, and all of a free core.
 */
const nicer = 10

// On Linux this is the priority of this thread alone. Elsewhere it would be that of the process.
if (process.platform === 'linux')
  setPriority(0, Math.min(getPriority() + nicer, constants.priority.PRIORITY_LOW))

parentPort?.on('message', ({ secret, salt, bytes, cost }: Derivation) => {
  parentPort?.postMessage(scryptSync(secret, salt, bytes, scryptOptions(cost)))
})
