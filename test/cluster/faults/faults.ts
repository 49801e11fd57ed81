/** All faults, in the order of the suite. */
import type { Fault } from './fault.ts'
import { messageFaults } from './message-faults.ts'
import { processFaults } from './process-faults.ts'
import { storageFaults } from './storage-faults.ts'

export const faults: readonly Fault[] = [...processFaults, ...messageFaults, ...storageFaults]
