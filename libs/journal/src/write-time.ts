/**
 * The logical write time of a row that one account owns: references, wake and active rows.
 *
 * Two hosts may both act as owner of an account, and their clocks may differ. So these rows
 * are not ordered by clocks: each write carries (term, epoch, counter) of the activation that
 * issues it, and of two writes of one row the higher one wins, in any order of arrival. A delete of
 * an earlier owner never removes what a later owner has put.
 *
 * A write time is one number of 63 bits, so that Cassandra accepts it as a timestamp:
 *
 * | bits   | field                        | range           | what happens beyond it |
 * |--------|------------------------------|-----------------|------------------------|
 * | 55–62  | home term                    | 1 … 255         | `UNAVAILABLE`: the home of the account has moved too often |
 * | 27–54  | epoch within its term        | 0 … 268,435,455 | `UNAVAILABLE`, until the home moves and its next term begins |
 * | 0–26   | writes of one activation     | 1 … 134,217,727 | the activation ends; the next one has the next epoch |
 *
 * Writes before the first row of an account have epoch 0.
 *
 * The smallest write time is above every wall clock in microseconds until the year 3111, so a row
 * that was written without one never wins against its owner.
 */
import { JournalFault } from './errors.ts'
import type { JournalOwnership } from './journal-store.ts'

/**
 * Epochs of a term are below those of the next, so that neither an ownership nor the name of a page
 * is valid in two terms.
 */
export const epochsPerTerm = 2 ** 32

/**
 * How often the home of the account had moved, from 1. With a move, rows that were acknowledged may
 * have been lost.
 */
export function termOfEpoch(epoch: number): number {
  return Math.floor(epoch / epochsPerTerm) + 1
}

const termMax = 255
const epochBits = 28n
const counterBits = 27n
/** Writes that one activation can order. */
export const writesPerEpochMax = 2 ** Number(counterBits) - 1

/** @throws JournalFault `UNAVAILABLE` when a field is beyond its range. */
export function writeTimeOf(
  { account, epoch }: Pick<JournalOwnership, 'account' | 'epoch'>,
  counter: number,
): bigint {
  const term = termOfEpoch(epoch)
  const within = epoch % epochsPerTerm
  if (term > termMax || within >= 2 ** Number(epochBits) || counter > writesPerEpochMax) {
    const what = `write ${counter} in epoch ${within} of term ${term}`
    throw new JournalFault('UNAVAILABLE', `${account}: ${what} has no write time`)
  }
  return (((BigInt(term) << epochBits) | BigInt(within)) << counterBits) | BigInt(counter)
}
