/**
 * What `npm test` tries, and what it leaves to the long run. Both are decided here.
 *
 * A file belongs to the daily run unless it is dear. A dear suite has two sizes: `npm test` takes
 * the short one, `npm run test:long -- --ci` the full one. A file without a useful short form is
 * in the long run alone.
 */

export type Form = 'short' | 'full'

/** The runner sets it for the test files. A file that is started by itself is short. */
export const formVariable = 'TEST_FORM'
export const longRun = 'npm run test:long -- --ci'

const sizes = {
  /** Crash states of the chunk store. */
  crashStates: { short: 400, full: 2_000 },
} satisfies Record<string, Record<Form, number>>

/** In this run's form. */
export function sizeOf(suite: keyof typeof sizes): number {
  return sizes[suite][process.env[formVariable] === 'full' ? 'full' : 'short']
}

/** Files of the long run alone, each with its reason. */
export const longFiles: Readonly<Record<string, string>> = {}

/** Files that have two sizes: the long run has them, too. */
export const sizedFiles: readonly string[] = []

/** Files that fail now and then without a fault of the service, each with its cause. */
export const unsteady: Readonly<Record<string, string>> = {}
