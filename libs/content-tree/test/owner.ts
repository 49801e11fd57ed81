/** What an owner sets, in short. */
import type { DirectLink, Item, UpdateContent } from '@holdfast/wire'
import { operator, passwordOf, type World } from './world.ts'

export const names = (item: Item) => item.children.map((child) => child.name)

export function set(world: World, contentId: string, attribute: NonNullable<UpdateContent['attribute']>) {
  const status = world.status(operator, { updateContent: { contentId, attribute } })
  if (status !== 'ok') throw new Error(status)
}

export const password = (world: World, contentId: string, text: string) =>
  set(world, contentId, { $case: 'password', value: { verifier: passwordOf(text) } })

export const expire = (world: World, contentId: string, seconds: number) =>
  set(world, contentId, { $case: 'expiry', value: { expiry: world.now + seconds, deleteAfterExpiry: false } })

export const link: DirectLink = {
  id: '',
  expireTime: 0,
  sourceIpsAllowed: [],
  domainsAllowed: [],
  domainsBlocked: [],
  auth: [],
  createTime: 0,
}
