/** Views of accounts as answers. */
import {
  type ItemShape,
  okWritten,
  presentLimits,
  presentStatistics,
  type WrittenAnswer,
  writeMembers,
} from '@holdfast/http-kit'
import type { AccountView, ContentView, CopyView, DirectLinkView, ItemsView } from '@holdfast/wire'
import type { Call } from '../calls/call.ts'
import { answerBytes } from './answer-bytes.ts'

export function presentContent(call: Call, view: ContentView): ItemShape {
  if (view.item === undefined) throw new Error('the account answered without an item')
  return call.context.present.item(view.item, {
    nowSeconds: call.nowSeconds,
    tokenCounter: view.tokenCounter,
  })
}

/** `{<source id>: {status, data: <item>}}` of the items, one per requested id. */
export function presentItems(call: Call, ids: readonly string[], { items }: ItemsView): WrittenAnswer {
  return okWritten({
    bytes: answerBytes(items),
    write: (json) =>
      writeMembers(json, items.entries(), ([index, item]) => {
        const data = call.context.present.item(item, { nowSeconds: call.nowSeconds })
        return [ids[index] ?? item.id, { status: 'ok', data }]
      }),
  })
}

/** `{<source id>: {status, data}}` of the copies that were made; the caller chooses `data`. */
export function presentCopies(
  call: Call,
  { results }: CopyView,
  dataOf: (item: ItemShape) => ItemShape,
): WrittenAnswer {
  const made = results.flatMap(({ sourceId, item }) => (item === undefined ? [] : [{ sourceId, item }]))
  return okWritten({
    bytes: answerBytes(made.map(({ item }) => item)),
    write: (json) =>
      writeMembers(json, made, ({ sourceId, item }) => {
        const data = dataOf(call.context.present.item(item, { nowSeconds: call.nowSeconds }))
        return [sourceId, { status: 'ok', data }]
      }),
  })
}

export function presentDirectLink(call: Call, view: DirectLinkView): ItemShape {
  const { link, contentId, name, isFolder } = view
  if (link === undefined) throw new Error('the account answered without a direct link')
  return { id: link.id, ...call.context.present.directLink({ id: contentId, name, isFolder }, link) }
}

/** Account details with the token of the call and the names that existing clients read. */
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
    statsCurrent: presentStatistics(view),
    limits: presentLimits(view),
    recycleBin: { enabled: view.recycleBinEnabled, folder: view.recycleBinFolder },
    subscriptionProvider: premiumType,
    subscriptionEndDate: null,
    subscriptionLimitStorage: view.limitStorage ?? null,
    subscriptionLimitDirectTraffic: view.limitTraffic ?? null,
  }
}
