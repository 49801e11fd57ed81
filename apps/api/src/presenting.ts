/** Views of accounts as answers. */
import type { ItemShape } from '@holdfast/http-kit'
import type { AccountView, ContentView, CopyView, DirectLinkView, ItemsView } from '@holdfast/wire'
import type { Call } from './call.ts'

export function presentContent(call: Call, view: ContentView): ItemShape {
  if (view.item === undefined) throw new Error('the account answered without an item')
  return call.parts.present.item(view.item, { nowSeconds: call.nowSeconds, tokenCounter: view.tokenCounter })
}

/** `{<source id>: {status, data: <item>}}` of the items, one per id asked for. */
export function presentItems(call: Call, ids: readonly string[], view: ItemsView): Record<string, ItemShape> {
  const shapes: Record<string, ItemShape> = {}
  for (const [index, item] of view.items.entries()) {
    const data = call.parts.present.item(item, { nowSeconds: call.nowSeconds })
    shapes[ids[index] ?? item.id] = { status: 'ok', data }
  }
  return shapes
}

/** Likewise of copies; `data` says what of each. */
export function presentCopies(
  call: Call,
  view: CopyView,
  dataOf: (item: ItemShape) => ItemShape,
): Record<string, ItemShape> {
  const shapes: Record<string, ItemShape> = {}
  for (const { sourceId, item } of view.results) {
    if (item === undefined) continue
    shapes[sourceId] = {
      status: 'ok',
      data: dataOf(call.parts.present.item(item, { nowSeconds: call.nowSeconds })),
    }
  }
  return shapes
}

export function presentDirectLink(call: Call, view: DirectLinkView): ItemShape {
  const { link, contentId, name, isFolder } = view
  if (link === undefined) throw new Error('the account answered without a direct link')
  return { id: link.id, ...call.parts.present.directLink({ id: contentId, name, isFolder }, link) }
}

/** Account details with the token of the call and the names that clients in the wild read. */
export function presentAccount(view: AccountView, token: string): ItemShape {
  const premium = view.tier === 'premium'
  const premiumType = premium ? (view.premiumType ?? 'subscription') : null
  return {
    id: view.id,
    email: view.email,
    emailConfirmed: view.emailConfirmed,
    tier: view.tier,
    premiumType,
    token,
    rootFolder: view.rootFolder,
    createTime: view.createTime,
    statsCurrent: {
      storage: view.storage,
      fileCount: view.fileCount,
      folderCount: view.folderCount,
      trafficDirectGenerated: view.trafficDirect,
      trafficWebDownloaded: view.trafficWeb,
    },
    limits: {
      storage: view.limitStorage ?? null,
      contents: view.limitContents ?? null,
      traffic: view.limitTraffic ?? null,
    },
    recycleBin: { enabled: view.recycleBinEnabled, folder: view.recycleBinFolder },
    subscriptionProvider: premiumType,
    subscriptionEndDate: null,
    subscriptionLimitStorage: view.limitStorage ?? null,
    subscriptionLimitDirectTraffic: view.limitTraffic ?? null,
  }
}
