/** Asks the host that serves an account to repair it, from any process. */

import { AccountsUnavailable, repairSubjectOf } from '@holdfast/accounts'
import type { Bus } from '@holdfast/bus'
import type { RepairReport } from './repair.ts'

export interface RepairQuestion {
  account: string
  dryRun: boolean
}

export type RepairAnswer = { report: RepairReport } | { fault: string; message: string }

/** The largest account is read and written several times. */
const repairMs = 5 * 60_000

/** @throws AccountsUnavailable when no host serves the account, or its stores refuse. */
export async function repairAccount(
  { bus, hostOf }: { bus: Bus; hostOf: (account: string) => string | undefined },
  question: RepairQuestion,
): Promise<RepairReport> {
  const host = hostOf(question.account)
  if (host === undefined)
    throw new AccountsUnavailable(`no host that serves account ${question.account} is known`)
  const message = Buffer.from(JSON.stringify(question))
  const answer = await bus.request(repairSubjectOf(host), message, { timeoutMs: repairMs })
  const read = JSON.parse(Buffer.from(answer).toString()) as RepairAnswer
  if ('report' in read) return read.report
  const what = `account ${question.account} was not repaired: ${read.message}`
  if (read.fault === 'INTERNAL') throw new Error(what)
  throw new AccountsUnavailable(what)
}
