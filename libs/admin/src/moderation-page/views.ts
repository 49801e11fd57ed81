/** The views of the moderation page. */
import { type Html, html, RefusalError, timeElement } from '@holdfast/http-kit'
import { isShareCode } from '@holdfast/kernel'
import {
  type Act,
  type BlockList,
  blockLists,
  isUndoable,
  listedName,
  type Report,
  reportStates,
  type TransferQuestion,
  type TransferRow,
} from '@holdfast/moderation'
import { showAccount } from '../accounts/accounts.ts'
import type { ContentQuery, Hit } from '../accounts/all-accounts.ts'
import { hashesOf, look, nameIn, placeOf, read } from '../accounts/contents.ts'
import { accountNamed } from '../calls.ts'
import { actForm, detailList, type FormFields, find, pager, searchForm, type View } from './frame.ts'
import type { ModerationPageDeps } from './page-deps.ts'

type Query = Record<string, string | undefined>

const shownActs = 50
const anything: TransferQuestion = {
  address: undefined,
  account: undefined,
  content: undefined,
  name: undefined,
  hash: undefined,
}

export async function homeView(deps: ModerationPageDeps, form: FormFields): Promise<View> {
  const { reports } = await deps.reports.page('new')
  const { acts } = await deps.lists.acts.page({ limit: 10 })
  const { rows } = await deps.transfers.find('upload', anything, { limit: 20 })
  return {
    title: 'Overview',
    body: html`${searchForm('')}
<h2>Reports that wait</h2>${reportsTable(reports)}
<h2>Last uploads</h2>${transfersTable(rows)}
<h2>Last acts</h2>${actsTable(acts, form)}`,
  }
}

/** One field finds everything: its text says what it is. */
export async function searchView(
  deps: ModerationPageDeps,
  text: string,
  query: Query,
  form: FormFields,
): Promise<View> {
  const found = await viewOf(deps, text, query, form)
  return { title: text, body: html`${searchForm(text)}${found}` }
}

async function viewOf(deps: ModerationPageDeps, text: string, query: Query, form: FormFields): Promise<Html> {
  const hash = listedName('content', text)
  if (hash !== undefined) return hashView(deps, hash, query, form)
  const network = listedName('network', text)
  if (network !== undefined) return networkView(deps, network, query, form)
  if (text.includes('@') || deps.accounts.ids.parseAccount(text.toLowerCase()) !== undefined)
    return accountView(deps, text, query, form)
  const named = nameIn(text)
  if (isShareCode(named) || deps.accounts.ids.accountOf(named.toLowerCase()) !== undefined) {
    const content = await contentView(deps, named, form)
    if (content !== undefined) return content
  }
  return html`<h1>“${text}” in the name</h1>
<h2>In all accounts</h2>${await allAccounts(deps, { text }, query)}
<h2>Uploads</h2>${await uploads(deps, { name: text }, text, query)}`
}

async function hashView(
  deps: ModerationPageDeps,
  hash: string,
  query: Query,
  form: FormFields,
): Promise<Html> {
  return html`<h1>Content by its hash</h1><p><code>${hash}</code></p>${blockForm(deps, 'content', hash, form)}
<h2>In all accounts</h2>${await allAccounts(deps, { hash }, query)}
<p class="quiet">Deletes it from all accounts. This can be undone for 30 days.</p>
${actForm(form, { name: hash }, [{ act: 'delete-hash', label: 'Delete from all accounts' }])}
<h2>Uploads of it</h2>${await uploads(deps, { hash }, hash, query)}`
}

async function networkView(
  deps: ModerationPageDeps,
  network: string,
  query: Query,
  form: FormFields,
): Promise<Html> {
  return html`<h1>Network ${network}</h1>${blockForm(deps, 'network', network, form)}
<h2>Uploads from it</h2>${await uploads(deps, { address: network }, network, query)}`
}

async function accountView(
  deps: ModerationPageDeps,
  text: string,
  query: Query,
  form: FormFields,
): Promise<Html> {
  const id = await accountNamed(deps.accounts, text)
  const account = await showAccount(deps.accounts, id)
  const { statsCurrent } = account
  return html`<h1>Account ${account.email}</h1>
${detailList([
  ['Id', id],
  ['Tier', account.tier],
  ['Made', timeElement(account.createTime)],
  ['Files', statsCurrent.fileCount],
  ['Bytes', statsCurrent.storage],
  ['Root folder', find(account.rootFolder)],
  ...(account.endTime === null ? [] : [['Deleted; its contents end', timeElement(account.endTime)] as const]),
])}
${blockForm(deps, 'account', id, form)}
${
  account.endTime === null &&
  html`<h2>Delete</h2><p class="quiet">Suspends the account at once, and empties it after 30 days. Until then its act can be undone.</p>
${actForm(form, { name: id }, [{ act: 'delete-account', label: 'Delete the account' }])}`
}
<h2>Its uploads</h2>${await uploads(deps, { account: id }, text, query)}`
}

async function contentView(
  deps: ModerationPageDeps,
  name: string,
  form: FormFields,
): Promise<Html | undefined> {
  const all = { ...deps.accounts, lists: deps.lists }
  const place = await placeOf(all, name).catch(unlessUnknown)
  const seen = place === undefined ? undefined : await look(all, place).catch(unlessUnknown)
  if (place === undefined || seen === undefined) return undefined
  const { accountId } = place
  const about: [string, string | number | Html][] = [
    ['Id', seen.id],
    ['Code', seen.code ?? 'none'],
    ['Account', find(accountId)],
    ['Made', timeElement(seen.createTime)],
    ['Downloads', seen.downloads],
  ]
  if (seen.parentFolder !== null) about.push(['Folder', find(seen.parentFolder)])
  const { item } = await read(all, place)
  const { md5 = '', blake3 = '' } = hashesOf(item)
  if (!item.isFolder)
    about.push(
      ['Size', `${item.size} bytes`],
      ['Type', item.mimetype],
      ['MD5', find(md5)],
      ['BLAKE3', find(blake3)],
    )
  return html`<h1><bdi>${seen.name}</bdi></h1>${detailList(about)}
${!item.isFolder && html`<h2>Bytes</h2>${blockForm(deps, 'content', blockedName(deps, [md5, blake3]), form)}`}
<h2>Account</h2>${blockForm(deps, 'account', accountId, form)}
<h2>Delete</h2><p class="quiet">This can be undone for 30 days.</p>
${actForm(form, { name: seen.id }, [{ act: 'delete', label: 'Delete' }])}
${
  'children' in seen &&
  html`<h2>In it (${seen.childrenCount})</h2>
<ul>${seen.children.map((child) => html`<li>${find(child.id, child.name)}</li>\n`)}</ul>`
}
${
  'usedBy' in seen &&
  html`<h2>Accounts with this copy of the bytes</h2>
<ul>${seen.usedBy.map((account) => html`<li>${find(account)}</li>\n`)}</ul>`
}`
}

/** The hash by which it is blocked, else the last one. */
function blockedName({ lists }: ModerationPageDeps, hashes: readonly string[]): string {
  return hashes.find((hash) => lists.actOf('content', hash) !== undefined) ?? hashes.at(-1) ?? ''
}

function unlessUnknown(error: unknown): undefined {
  if (!(error instanceof RefusalError) || error.status !== 'error-content') throw error
}

async function uploads(
  deps: ModerationPageDeps,
  question: Partial<TransferQuestion>,
  text: string,
  query: Query,
): Promise<Html> {
  const page = await deps.transfers.find('upload', { ...anything, ...question }, { after: query.after })
  return html`${transfersTable(page.rows)}${pager('/moderation', page.next, { q: text })}`
}

/** A piece of a search, which takes seconds: begun by a link. */
async function allAccounts(deps: ModerationPageDeps, sought: ContentQuery, query: Query): Promise<Html> {
  const q = query.q ?? ''
  const link = (label: string, from: string) =>
    html`<p><a href="/moderation?${new URLSearchParams({ q, from }).toString()}">${label}</a></p>`
  if (query.from === undefined) return link('Look in all accounts', '')
  const { hits, failed, looked, next } = await deps.allAccounts.find(sought, query.from)
  return html`${hits.length > 0 && hitsTable(hits)}
<p class="quiet">${looked} looked at${next === null ? '.' : ', and there are more.'}</p>
<ul>${failed.map(({ account }) => html`<li>${find(account)} gave no answer</li>\n`)}</ul>
${next !== null && link('Go on', next)}`
}

function hitsTable(hits: readonly Hit[]): Html {
  return html`<table><thead><tr><th>Made</th><th>Name</th><th class="number">Bytes</th><th>Account</th></tr></thead><tbody>
${hits.map(
  (
    hit,
  ) => html`<tr><td>${timeElement(hit.createTime)}</td><td><bdi>${find(hit.id, hit.path)}</bdi>${hit.inBin && html` <span class="quiet">in the bin</span>`}</td>
<td class="number">${hit.size}</td><td>${find(hit.account, hit.account.slice(0, 8))}</td></tr>\n`,
)}</tbody></table>`
}

/** A name of the list, and its button. */
const blockWords: Record<BlockList, [string, string]> = {
  content: ['blocked', 'Block'],
  account: ['suspended', 'Suspend'],
  network: ['banned', 'Ban'],
  invitation: ['withdrawn', 'Withdraw'],
}

function blockForm({ lists }: ModerationPageDeps, list: BlockList, name: string, form: FormFields): Html {
  const act = lists.actOf(list, name)
  const [is, label] = blockWords[list]
  const button = act === undefined ? { act: 'block', label } : { act: 'unblock', label: 'Lift' }
  return html`<p>${act === undefined ? `Not ${is}.` : html`<strong class="bad">It is ${is}</strong> <span class="quiet">(${act})</span>`}</p>
${actForm(form, { list, name }, [button])}`
}

export async function reportsView(deps: ModerationPageDeps, query: Query, form: FormFields): Promise<View> {
  if (query.id !== undefined) return reportView(await deps.reports.get(query.id), form)
  const state = reportStates.find((name) => name === query.state) ?? 'new'
  const page = await deps.reports.page(state, { after: query.after ?? '' })
  return {
    title: 'Reports',
    body: html`<h1>Reports: ${state}</h1>
<p>${reportStates.map((name) => html`<a href="/moderation/reports?state=${name}"${name === state && html` aria-current="page"`}>${name}</a> `)}</p>
${reportsTable(page.reports)}${pager('/moderation/reports', page.next, { state })}`,
  }
}

function reportView(report: Report, form: FormFields): View {
  return {
    title: 'Report',
    body: html`<h1>Report: ${report.category}</h1>
${detailList([
  ['State', report.state],
  ['Time', timeElement(report.time)],
  ['Content', find(report.content)],
  ['Account', find(report.account)],
  ['From', find(report.address)],
  ['Contact', report.contact || 'none'],
])}
<p class="text">${report.text}</p>
<h2>Decide</h2>
${actForm(form, { name: report.id }, [
  { act: 'accept', label: 'Accept' },
  { act: 'accept-block', label: 'Accept and block the bytes' },
  { act: 'accept-suspend', label: 'Accept, block, suspend the account' },
  { act: 'accept-delete', label: 'Accept and delete' },
  { act: 'reject', label: 'Reject' },
])}`,
  }
}

export async function actsView(deps: ModerationPageDeps, query: Query, form: FormFields): Promise<View> {
  const page = await deps.lists.acts.page({ after: query.after ?? '', limit: shownActs })
  const body = html`<h1>What operators did</h1>${actsTable(page.acts, form)}${pager('/moderation/acts', page.next)}`
  return { title: 'Acts', body }
}

export function blockedView({ lists }: ModerationPageDeps, query: Query): View {
  const list = blockLists.find((name) => name === query.list) ?? 'content'
  const names = lists.names(list, { after: query.after ?? '', limit: 100 })
  const next = names.length === 100 ? names.at(-1) : undefined
  return {
    title: 'Blocked',
    body: html`<h1>Blocked: ${list} (${lists.count(list)})</h1>
<p>${blockLists.map((name) => html`<a href="/moderation/blocked?list=${name}"${name === list && html` aria-current="page"`}>${name}</a> `)}</p>
<ul class="plain">${names.map((name) => html`<li>${find(name)}</li>\n`)}</ul>${pager('/moderation/blocked', next, { list })}`,
  }
}

function reportsTable(reports: readonly Report[]): Html {
  if (reports.length === 0) return html`<p class="quiet">None.</p>`
  return html`<table><thead><tr><th>Time</th><th>What</th><th>Content</th><th>Text</th></tr></thead><tbody>
${reports.map(
  (
    report,
  ) => html`<tr><td>${timeElement(report.time)}</td><td><a href="/moderation/reports?id=${report.id}">${report.category}</a></td>
<td>${find(report.content, report.content.slice(0, 8))}</td><td><bdi>${report.text.slice(0, 80)}</bdi></td></tr>\n`,
)}</tbody></table>`
}

function transfersTable(rows: readonly TransferRow[]): Html {
  if (rows.length === 0) return html`<p class="quiet">None in the record.</p>`
  return html`<table><thead><tr><th>Time</th><th>Name</th><th class="number">Bytes</th><th>From</th><th>Account</th></tr></thead><tbody>
${rows.map(
  (
    row,
  ) => html`<tr><td>${timeElement(row.time)}</td><td><bdi>${find(row.content, row.name)}</bdi></td><td class="number">${row.size}</td>
<td>${find(row.address)}</td><td>${find(row.account, row.account.slice(0, 8))}</td></tr>\n`,
)}</tbody></table>`
}

function actsTable(acts: readonly Act[], form: FormFields): Html {
  if (acts.length === 0) return html`<p class="quiet">None.</p>`
  return html`<table><thead><tr><th>Time</th><th>Who</th><th>What</th><th></th></tr></thead><tbody>
${acts.map(
  (act) => html`<tr><td>${timeElement(act.time)}</td><td>${act.by}</td>
<td>${act.kind} <bdi>${act.what}</bdi>${act.reason !== '' && html` <span class="quiet">${act.reason}</span>`}</td>
<td>${isUndoable(act) && actForm(form, { name: act.id }, [{ act: 'undo', label: 'Undo' }])}</td></tr>\n`,
)}</tbody></table>`
}
