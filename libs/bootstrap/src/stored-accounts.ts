/** Accounts of a copy of the metadata, for queries without a service. */
import { randomBytes } from 'node:crypto'
import { type AskDeps, usesOfCopy } from '@holdfast/accounts'
import { StoredAccounts } from '@holdfast/actor-runtime'
import { readConfig } from '@holdfast/config'
import type { JournalRepair } from '@holdfast/journal'
import { Keyring, systemClock } from '@holdfast/kernel'
import { accountStates } from './account-host.ts'

export { usesOfCopy }

/** Answers to the operator's queries depend neither on limits nor on keys, so any values work. */
export function storedAccounts(journal: JournalRepair): AskDeps {
  const { config } = readConfig({}, { readSecret: () => '' })
  const states = accountStates({ config, keyring: new Keyring(randomBytes(32)) })
  return { accounts: new StoredAccounts({ journal, states }), clock: systemClock }
}
