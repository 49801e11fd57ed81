/** What must be true in the stores around the journals, during a run and at its end. */

import { routeKey } from '@holdfast/accounts'
import type { AccountState } from '@holdfast/content-tree'
import { referenceKey } from '@holdfast/journal'
import { hex } from '@holdfast/kernel'
import { type AccountReply, Flush, type Item } from '@holdfast/wire'
import { tickNumber } from './checker.ts'
import { type Cluster, keyring, states } from './cluster.ts'
import { type History, isRefused } from './history.ts'
import type { AppendedRow } from './stores.ts'

/** A timer has fired by then. */
const overdueSeconds = 15

/**
 * When a row becomes durable: the references of the blobs that it starts to use are already
 * durable.
 */
export function watchReferences(cluster: Cluster, history: History): void {
  cluster.shared.onAppended = (row: AppendedRow) => {
    checkTicks(cluster, history, row)
    const blobs = Flush.decode(row.bytes).changes.flatMap(({ events }) =>
      events.flatMap(({ event }) =>
        event?.$case === 'fileAdded' && event.value.blob ? [event.value.blob] : [],
      ),
    )
    for (const blob of blobs.filter((one) => one !== undefined))
      void cluster.shared.lookups.get(referenceKey(blob, row.account)).then((value) => {
        if (value === undefined)
          history.violated(`${row.account.slice(0, 4)}: row ${row.seq} uses a blob that has no reference`)
      })
  }
}

/**
 * Clocks of hosts sometimes differ by a second; far from the others no timer of an account
 * fires.
 */
const tickAheadMsMax = 15_000

/** A timer that fires too early deletes what is not expired yet. */
function checkTicks(cluster: Cluster, history: History, { account, seq, bytes }: AppendedRow): void {
  for (const { operation, timeMs } of Flush.decode(bytes).changes) {
    const aheadMs = timeMs - cluster.scheduler.nowMs
    if (operation === tickNumber && aheadMs > tickAheadMsMax)
      history.violated(
        `${account.slice(0, 4)}: row ${seq} fires a timer ${Math.round(aheadMs)} ms ahead of time`,
      )
  }
}

/**
 * When an answer arrives: the codes in it lead to its account, and none ever belonged to another
 * content.
 */
export async function checkCodes(cluster: Cluster, history: History, reply: AccountReply): Promise<void> {
  for (const { code, id } of itemsOf(reply)) {
    if (code === undefined) continue
    const owner = history.codes.get(code) ?? id
    if (owner !== id) history.violated(`${id} was shown with the code of ${owner}`)
    history.codes.set(code, id)
    const { codes, ids } = keyring
    const route = await cluster.shared.lookups.get(
      routeKey(8, Math.floor(codes.counterOf(code) / codes.perBlock)),
    )
    if (route === undefined || Buffer.from(route).toString() !== ids.accountOf(id))
      history.violated(
        `${id} was shown with a code that leads ${route === undefined ? 'nowhere' : 'elsewhere'}`,
      )
  }
}

function itemsOf({ result }: AccountReply): Item[] {
  if (result?.$case === 'content') return result.value.item === undefined ? [] : [result.value.item]
  if (result?.$case === 'copy')
    return result.value.results.flatMap(({ item }) => (item === undefined ? [] : [item]))
  return []
}

/** After healing, before any request: nothing that was acknowledged waits for one. */
export async function checkUnasked(cluster: Cluster, history: History): Promise<void> {
  const rows = Map.groupBy(cluster.shared.appended, ({ account }) => account)
  for (const [account, appended] of rows) {
    const name = account.slice(0, 4)
    const state = stateOf(history, account, appended)
    if (state === undefined) continue
    for (const { number, effect } of state.effects())
      if (effect?.$case === 'signInMail' || effect?.$case === 'blobReleased')
        history.violated(`${name}: effect ${number} (${effect.$case}) waits for a request`)
    const due = state.nextDue()
    if (due !== undefined && due < cluster.scheduler.nowMs / 1000 - overdueSeconds)
      history.violated(`${name}: due at ${due}, and waits for a request`)
    else if (due !== undefined) await checkTimer(cluster, history, { account, due })
  }
  if ([...cluster.hosts.values()].some(({ host }) => host.activeAccounts > 0)) return
  for await (const { key } of cluster.shared.lookups.scan('active/'))
    history.violated(`${key} is there, and no account is in memory`)
}

/**
 * A report of downloads that was applied, and that no row has, was lost with its owner: that owner
 * did not leave cleanly, and wrote at most the row that was under way.
 */
export function checkReports({ shared, waiting }: Cluster, history: History): void {
  const { appended, held } = shared
  const journaled = new Set(
    appended.flatMap(({ bytes }) => Flush.decode(bytes).changes.map(({ requestId }) => hex(requestId))),
  )
  for (const { id, account, host, step } of waiting) {
    if (journaled.has(id)) continue
    const owner = held.findLast((one) => one.account === account && one.host === host && one.step < step)
    // The epoch of a new account comes with its first row.
    if (owner === undefined || owner.epoch === 0) continue
    const rows = appended.filter(
      (row) => row.account === account && row.epoch === owner.epoch && row.step > step,
    )
    if (rows.length > 1 || owner.released)
      history.violated(
        `${account.slice(0, 4)}: report ${id.slice(-6)} is in no row of ${host}, which continued`,
      )
  }
}

function stateOf(
  history: History,
  account: string,
  appended: readonly AppendedRow[],
): AccountState | undefined {
  const state = states.empty(account)
  for (const { seq, bytes } of appended.toSorted((one, other) => one.seq - other.seq))
    try {
      for (const change of Flush.decode(bytes).changes) state.apply(change)
    } catch (error) {
      history.violated(`${account.slice(0, 4)}: row ${seq} does not apply: ${(error as Error).message}`)
      return undefined
    }
  return state
}

/** After healing: what the accounts own, owe and have scheduled. */
export async function checkRest(
  cluster: Cluster,
  history: History,
  final: ReadonlyMap<string, { state: AccountState; tree: Item; view: AccountReply }>,
): Promise<void> {
  for (const [account, { state, tree, view }] of final) {
    const name = account.slice(0, 4)
    await checkBlobs(cluster, history, account, tree)
    checkFigures(history, name, tree, view)
    const due = state.nextDue()
    if (due !== undefined) await checkTimer(cluster, history, { account, due })
    for (const effect of state.effects())
      if (effect.effect?.$case === 'signInMail' || effect.effect?.$case === 'blobReleased')
        history.violated(`${name}: effect ${effect.number} (${effect.effect.$case}) was never carried out`)
  }
  checkMails(cluster, history)
  checkTokens(history)
}

/** A row that is no later, in an hour that is not done. */
async function checkTimer(
  cluster: Cluster,
  history: History,
  { account, due }: { account: string; due: number },
): Promise<void> {
  const { lookups } = cluster.shared
  for await (const { key, value } of lookups.scan('wake/')) {
    const [, home, bucket, hour, , whose] = key.split('/')
    if (whose !== account || Number(Buffer.from(value).toString()) > due) continue
    const read = async (name: string) =>
      Number(Buffer.from((await lookups.get(`hours/${home}/${bucket}/${name}`)) ?? []).toString())
    const from = Math.max(await read('done'), await read('first'))
    if ((await read('open')) > 0 && from <= Number(hour)) return
  }
  history.violated(`${account.slice(0, 4)}: due at ${due}, and nothing wakes it`)
}

async function checkBlobs(cluster: Cluster, history: History, account: string, tree: Item): Promise<void> {
  for (const item of walk(tree)) {
    if (item.blob === undefined) continue
    if ((await cluster.shared.lookups.get(referenceKey(item.blob, account))) === undefined)
      history.violated(`${account.slice(0, 4)}: file ${item.id} uses a blob that has no reference`)
  }
}

/** The figures are the sums of the content. */
function checkFigures(history: History, name: string, tree: Item, view: AccountReply): void {
  if (view.result?.$case !== 'account') return
  const { fileCount, folderCount, storage } = view.result.value
  let files = 0
  let folders = -1 // the root does not count
  let bytes = 0
  for (const item of walk(tree)) {
    if (item.isFolder) folders++
    else {
      files++
      bytes += Number(item.size)
    }
  }
  // Content in the bin counts as well, and is not in the tree.
  if (Number(fileCount) < files || Number(folderCount) < folders || Number(storage) < bytes)
    history.violated(
      `${name}: counts ${fileCount} files, ${folderCount} folders, ${storage} bytes; there are ${files}, ${folders}, ${bytes}`,
    )
}

export function* walk(item: Item): Generator<Item> {
  yield item
  for (const child of item.children) yield* walk(child)
}

/** Each acknowledged sign-in was mailed, and equal mails count once. */
function checkMails(cluster: Cluster, history: History): void {
  const byId = Map.groupBy(cluster.mails, ({ id }) => id)
  for (const [id, mails] of byId)
    if (new Set(mails.map(({ tokenCounter }) => tokenCounter)).size > 1)
      history.violated(`mail ${id} was sent with two tokens`)
  const sent = Map.groupBy(byId.values(), ([mail]) => mail?.accountId)
  const rows = Map.groupBy(cluster.shared.appended, ({ account }) => account)
  for (const [account, appended] of rows) {
    const wanted = appended
      .flatMap(({ bytes }) => Flush.decode(bytes).changes)
      .flatMap(({ events }) => events)
      .filter(({ event }) => event?.$case === 'signInRequested').length
    const count = sent.get(account)?.length ?? 0
    if (count !== wanted) history.violated(`${account.slice(0, 4)}: ${wanted} sign-ins made ${count} mails`)
  }
}

/** After an acknowledged reset, the token before it opens nothing any more. */
function checkTokens(history: History): void {
  const resets = history.asked.filter(
    ({ request, reply }) =>
      request.operation?.$case === 'resetToken' && reply !== undefined && !isRefused(reply),
  )
  for (const reset of resets) {
    const old = tokenOf(reset.request.caller)
    for (const { account, invoked, request, reply, id } of history.asked) {
      if (account !== reset.account || invoked <= reset.responded || reply === undefined || isRefused(reply))
        continue
      if (old !== undefined && tokenOf(request.caller) === old)
        history.violated(
          `${request.operation?.$case} ${id.slice(-6)} was accepted with a token that had been reset`,
        )
    }
  }
}

function tokenOf(caller: History['asked'][number]['request']['caller']): string | undefined {
  return caller?.who?.$case === 'bearer' ? hex(caller.who.value.token) : undefined
}
