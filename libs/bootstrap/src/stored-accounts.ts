/** Accounts of a copy of the metadata, for questions without a service. */
import { randomBytes } from 'node:crypto'
import { type AskDeps, usesOfCopy } from '@holdfast/accounts'
import { StoredAccounts } from '@holdfast/actor-runtime'
import { readConfig } from '@holdfast/config'
import type { JournalRepair } from '@holdfast/journal'
import { Keyring, systemClock } from '@holdfast/kernel'
import { accountStates } from './account-host.ts'

export { usesOfCopy }

/** Answers of the operator's questions depend neither on limits nor on keys: any will do. */
export function storedAccounts(journal: JournalRepair): AskDeps {
  const { config } = readConfig({}, { readSecret: () => '' })
  const states = accountStates({ config, keyring: new Keyring(randomBytes(32)) })
  return { accounts: new StoredAccounts({ journal, states }), clock: systemClock }
}
