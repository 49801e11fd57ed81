/**
 * Shared content for the clients that download: folders within a folder, a password, and one single
 * file.
 */
import { digestsOf, largeBytes, names } from './files.ts'
import type { Account, Item, World } from './world.ts'

export interface SharedFolder {
  owner: Account
  folder: Item
  /** Directly in the folder. */
  files: Record<string, string>
  inner: Item
  /** In the folder within. */
  innerFiles: Record<string, string>
  /** Contains `secret.txt`; opened by `geheim`. */
  locked: Item
  file: Item
}

export async function share(
  world: World,
  { full, many }: { full: boolean; many: number },
): Promise<SharedFolder> {
  const owner = await world.account('guest')
  const { token } = owner
  const files: Record<string, string | Uint8Array> = {
    [names.plain]: 'report',
    [names.spaced]: 'spaced',
    [names.foreign]: 'foreign',
    [names.quoted]: 'quoted',
    'large.bin': largeBytes(full),
    ...Object.fromEntries(
      Array.from({ length: many }, (_, number) => [`many-${number}.txt`, `content ${number}`]),
    ),
  }
  const innerFiles = { 'inner one.txt': 'one', 'inner-2.txt': 'two' }
  const folder = await world.folder('Für alle "hier"', { token, folderId: owner.rootFolder })
  for (const [name, content] of Object.entries(files))
    await world.upload(name, content, { token, folderId: folder.id })
  const inner = await world.folder('inner 文件', { token, folderId: folder.id })
  for (const [name, content] of Object.entries(innerFiles))
    await world.upload(name, content, { token, folderId: inner.id })
  const locked = await world.folder('locked', { token, folderId: owner.rootFolder })
  await world.upload('secret.txt', 'secret', { token, folderId: locked.id })
  const password = { attribute: 'password', attributeValue: 'geheim' }
  await world.api('PUT', `/contents/${locked.id}/update`, { token, json: password })
  const file = (await world.children(folder.id, token)).get(names.quoted) as Item
  return { owner, folder, files: digestsOf(files), inner, innerFiles: digestsOf(innerFiles), locked, file }
}
