/**
 * Approximate bytes of answers that have items. This decides whether an answer waits for its turn
 * and draws on the budget of unsent answers. So texts of the account's owner count with their
 * length: a description and tags can be fifteen times as long as everything else.
 */
import { ownerTextBytes } from '@holdfast/http-kit'
import type { DirectLink, Item } from '@holdfast/wire'

/** Approximate bytes of an item in an answer, without the texts that its owner wrote. */
export const itemBytes = 800
/** Approximate bytes of a direct link, without its restrictions. */
const linkBytes = 400
/** Bytes of the quotes and the comma of a text in a list. */
const markBytes = 3

/** Approximate bytes of items and all that is below them. */
export function answerBytes(items: readonly Item[]): number {
  let bytes = 0
  for (const item of items) {
    bytes += itemBytes + ownerTextBytes(item)
    for (const link of item.directLinks) bytes += bytesOfLink(link, item)
    bytes += answerBytes(item.children)
  }
  return bytes
}

/** A link shows the name of its item, in percent escapes. */
function bytesOfLink(link: DirectLink, { name }: Item): number {
  let bytes = linkBytes + 3 * Buffer.byteLength(name)
  for (const texts of [link.sourceIpsAllowed, link.domainsAllowed, link.domainsBlocked])
    for (const text of texts) bytes += text.length + markBytes
  for (const { user } of link.auth) bytes += Buffer.byteLength(user) + markBytes
  return bytes
}
