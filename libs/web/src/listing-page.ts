/** A folder or a file for visitors: works without any script. */
import { type AnswerShare, Html, html, type ItemPresenter, timeElement } from '@holdfast/http-kit'
import type { ContentView, Item } from '@holdfast/wire'
import type { ListingQuery } from './listing-query.ts'
import type { WebPage } from './shell.ts'

/** Rows made at once: a fraction of a millisecond. */
const rowsPerPiece = 16
/** Approximate bytes of a row beside its name, which is escaped. */
const rowBytes = 500
const escapedBytesMax = 6

export interface ListingDeps {
  presenter: ItemPresenter
  nowSeconds: number
  /** The share of the budget that the page has. The caller closes it. */
  share: Pick<AnswerShare, 'take' | 'make'>
}

/** A folder of many rows is made in pieces, each when it is the reader's turn. */
export async function contentPage(
  view: ContentView & { item: Item },
  query: ListingQuery,
  deps: ListingDeps,
): Promise<WebPage> {
  const { item } = view
  return {
    title: `${item.name} · Holdfast`,
    hidden: true,
    body: html`${item.isFolder ? await folderBody(view, query, deps) : fileBody(item, deps)}
<p class="quiet"><a href="/report/${item.code ?? item.id}" rel="nofollow">Report this content</a></p>`,
  }
}

function fileBody(
  item: Item,
  { presenter, nowSeconds }: Pick<ListingDeps, 'presenter' | 'nowSeconds'>,
): Html {
  const shape = presenter.item(item, { nowSeconds })
  return html`<h1><bdi>${item.name}</bdi></h1>
<div class="card">
<p><a class="button" href="${String(shape.link)}">Download</a> <span class="quiet">${bytesText(item.size)}</span></p>
<dl>
<dt>Type</dt><dd>${item.mimetype}</dd>
<dt>Uploaded</dt><dd>${timeElement(item.createTime)}</dd>
<dt>Downloads</dt><dd>${item.downloads}</dd>
<dt>MD5</dt><dd><code>${String(shape.md5)}</code></dd>
</dl>
</div>`
}

async function folderBody(
  view: ContentView & { item: Item },
  query: ListingQuery,
  deps: ListingDeps,
): Promise<Html> {
  const { item: folder, page } = view
  const rows = await rowsOf(folder, deps)
  const total = page?.totalCount ?? folder.childrenCount
  return html`<h1><bdi>${folder.name}</bdi></h1>
<p class="quiet">${total === 1 ? '1 entry' : `${total} entries`}${folder.expiry !== undefined && html` · open until ${timeElement(folder.expiry)}`}</p>
${folder.description !== undefined && html`<p class="description">${folder.description}</p>`}
${folder.childrenCount > 0 && html`<p><a class="button" href="/d/${folder.code ?? folder.id}/archive" rel="nofollow">Download all as ZIP</a></p>`}
${folder.children.length === 0 ? html`<p class="card">Nothing to see${query.page > 1 ? ' on this page' : ' in here'}.</p>` : table(rows, query)}
${pager(query, page === undefined ? 1 : Math.ceil(page.totalCount / page.pageSize))}`
}

async function rowsOf(folder: Item, deps: ListingDeps): Promise<Html> {
  const { children } = folder
  if (children.length <= rowsPerPiece) return rowsAmong(folder, children, deps)
  const { share } = deps
  const bytes = children.reduce((sum, { name }) => sum + rowBytes + name.length * escapedBytesMax, 0)
  const room = share.take(bytes)
  if (room !== undefined) await room
  const pieces: Html[] = []
  for (let at = 0; at < children.length; at += rowsPerPiece) {
    const some = children.slice(at, at + rowsPerPiece)
    pieces.push(await share.make(() => rowsAmong(folder, some, deps), at > 0))
  }
  return new Html(pieces.map(({ text }) => text).join(''))
}

function rowsAmong(folder: Item, children: Item[], { presenter, nowSeconds }: ListingDeps): Html {
  const shape = presenter.item({ ...folder, children }, { nowSeconds })
  const shapes = shape.children as Record<string, { link?: string }>
  return html`${children.map((child) => row(child, shapes[child.id]?.link))}`
}

function table(rows: Html, query: ListingQuery): Html {
  return html`<table class="card">
<thead><tr>
<th>${sortLink(query, 'name', 'Name')}</th>
<th class="number">${sortLink(query, 'size', 'Size')}</th>
<th class="number">${sortLink(query, 'downloads', 'Downloads')}</th>
<th>${sortLink(query, 'createTime', 'Added')}</th>
</tr></thead>
<tbody>
${rows}</tbody>
</table>`
}

function row(item: Item, link: string | undefined): Html {
  const target = item.isFolder ? `/d/${item.code ?? item.id}` : link
  const icon = item.isFolder ? (item.canAccess ? 'folder' : 'locked folder') : 'file'
  const name = html`<span class="icon ${icon}" role="img" aria-label="${icon}"></span><bdi>${item.name}</bdi>`
  return html`<tr>
<td class="name">${target === undefined ? name : html`<a href="${target}">${name}</a>`}</td>
<td class="number">${!item.isFolder && bytesText(item.size)}</td>
<td class="number">${!item.isFolder && item.downloads}</td>
<td class="quiet">${item.canAccess && timeElement(item.createTime)}</td>
</tr>
`
}

function sortLink(query: ListingQuery, sort: ListingQuery['sort'], label: string): Html {
  const current = query.sort === sort
  const ascending = current ? !query.ascending : sort === 'name'
  const arrow = current ? (query.ascending ? ' ↑' : ' ↓') : ''
  return html`<a href="?${queryText({ page: 1, sort, ascending })}"${current && html` aria-current="true"`}>${label}${arrow}</a>`
}

function pager(query: ListingQuery, pages: number): Html | undefined {
  if (pages <= 1) return undefined
  const link = (page: number, label: string, relation: string) =>
    page >= 1 && page <= pages
      ? html`<a class="button" rel="${relation}" href="?${queryText({ ...query, page })}">${label}</a>`
      : html`<span></span>`
  return html`<nav class="pager" aria-label="Pages">${link(query.page - 1, '← Previous', 'prev')}
<span class="quiet">Page ${query.page} of ${pages}</span>${link(query.page + 1, 'Next →', 'next')}</nav>`
}

function queryText({ page, sort, ascending }: ListingQuery): string {
  return new URLSearchParams({ sort, order: ascending ? 'asc' : 'desc', page: String(page) }).toString()
}

/** Three digits and a unit. */
export function bytesText(bytes: number): string {
  const units = ['B', 'kB', 'MB', 'GB', 'TB', 'PB']
  let value = bytes
  let unit = 0
  for (; value >= 999.5 && unit < units.length - 1; unit++) value /= 1000
  return `${unit === 0 || value >= 99.95 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`
}
