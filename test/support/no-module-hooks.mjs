/**
 * tap notes the modules of each process, also of programs that tests start, by a hook on loading.
 * With such a hook Node does not use its compile cache: each process removes the types of all its
 * modules again, which takes half of the CPU of a start. Nothing reads the notes here, so the hook
 * is not registered.
 *
 * A thread would load what tap imports into the process of a test, which takes a third of the CPU
 * of its start. A chunk store starts two threads, and tests open hundreds of stores.
 */
import module, { syncBuiltinESMExports } from 'node:module'
import threads from 'node:worker_threads'

module.registerHooks = () => ({ deregister() {} })

threads.Worker = class Worker extends threads.Worker {
  constructor(file, options) {
    super(file, { execArgv: [], ...options })
  }
}
syncBuiltinESMExports()
