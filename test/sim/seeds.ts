/** The simulations that run under a seed. */
import { crashStates } from './disk.ts'
import { evacuate } from './evacuation.ts'
import { planted } from './planted.ts'
import { type Run, simulate } from './simulation.ts'

export type PrintLine = (line: string) => void

/** The cluster always; the slower ones with some of the seeds. */
const evacuationEvery = 4
const diskEvery = 10

export async function runSeed(seed: number, printLine?: PrintLine): Promise<Run[]> {
  const reported = printLine === undefined ? {} : { printLine }
  const runs = [await simulate({ seed, ...reported })]
  if (seed % evacuationEvery === 0) runs.push(await evacuate({ seed, ...reported }))
  if (seed % diskEvery === 0) runs.push(await runDisk(seed))
  return runs
}

/** The simulation that this fault is planted in. @throws RangeError for an unknown name. */
export async function runBroken(name: string, seed: number, printLine?: PrintLine): Promise<Run> {
  const fault = planted[name]
  const reported = printLine === undefined ? {} : { printLine }
  switch (fault?.in) {
    case 'cluster':
      return simulate({ seed, plants: fault.make(), ...reported })
    case 'evacuation':
      return evacuate({ seed, merged: true, ...reported })
    case 'disk':
      return runDisk(seed, fault.make())
    case undefined:
      throw new RangeError(`no fault is named ${name}; there are ${Object.keys(planted).join(', ')}`)
  }
}

/** Differences between the second runs and the first. */
export function differing(first: readonly Run[], second: readonly Run[]): Run[] {
  return second.filter(({ digest, events }, at) => {
    const one = first[at]
    return one === undefined || one.digest !== digest || one.events !== events
  })
}

async function runDisk(seed: number, plants: Parameters<typeof crashStates>[1] = {}): Promise<Run> {
  const { violations, digest, states } = await crashStates(seed, plants)
  return { kind: 'disk', seed, violations, digest, simulatedMs: 0, events: states, asked: 0, changes: 0 }
}
