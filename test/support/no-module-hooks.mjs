/**
 * tap notes the modules of each process, also of programs that tests start, by a hook on loading.
 * With such a hook Node does not use its compile cache: each process removes the types of all its
 * modules again, which takes half of the CPU of a start. Nothing reads the notes here, so the hook
 * is not registered.
 */
import module from 'node:module'

module.registerHooks = () => ({ deregister() {} })
