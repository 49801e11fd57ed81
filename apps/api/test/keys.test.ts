/** Each operation that takes an `Idempotency-Key` sends the id that follows from it. */
import { operations } from '@holdfast/wire'
import t from 'tap'
import { world } from './world.ts'

t.test('a repeated call sends the same id, and one with another key a new one', async (t) => {
  const sent: { name: string; id: string }[] = []
  const { ask, guest, keyring } = world(t, {
    beforeCall: (request) => {
      const name = request.operation?.$case
      const id = (request as { requestId?: Uint8Array }).requestId
      if (name !== undefined) sent.push({ name, id: Buffer.from(id ?? []).toString('hex') })
    },
  })
  const ann = await guest('premium')
  const body = { token: ann.token }
  const folder = async () =>
    (await ask('POST', '/contents/createFolder', { ...body, body: { parentFolderId: ann.rootFolder } })).data
      .id
  const [one, other] = [await folder(), await folder()]
  const link = await ask('POST', `/contents/${one}/directlinks`, body)
  const mailed = keyring.mailProofs.of(Buffer.from(ann.token, 'base64url'))
  const calls: [operation: string, method: string, path: string, fields: object][] = [
    ['createAccount', 'POST', '/accounts', {}],
    ['createFolder', 'POST', '/contents/createFolder', { parentFolderId: ann.rootFolder }],
    ['updateContent', 'PUT', `/contents/${one}/update`, { attribute: 'description', attributeValue: 'a' }],
    ['copyContents', 'POST', '/contents/copy', { contentsId: one, folderId: other }],
    ['moveContents', 'PUT', '/contents/move', { contentsId: one, folderId: other }],
    ['putDirectLink', 'POST', `/contents/${one}/directlinks`, {}],
    ['putDirectLink', 'PUT', `/contents/${one}/directlinks/${link.data.id}`, {}],
    ['deleteDirectLink', 'DELETE', `/contents/${one}/directlinks/${link.data.id}`, {}],
    ['deleteContents', 'DELETE', '/contents', { contentsId: one }],
    ['restoreContents', 'POST', '/recyclebin/restore', { contentsId: one }],
    ['emptyBin', 'DELETE', '/recyclebin', {}],
    ['confirmEmail', 'POST', `/accounts/${ann.id}/confirm`, { mailed, keepToken: true }],
    ['resetToken', 'POST', `/accounts/${ann.id}/resettoken`, {}],
  ]
  for (const [operation, method, path, fields] of calls) {
    const idsOf = async (key: string) => {
      sent.length = 0
      const who = operation === 'createAccount' ? {} : body
      await ask(method as 'POST', path, { ...who, body: fields, 'idempotency-key': key })
      return sent.filter(({ name }) => name === operation).map(({ id }) => id)
    }
    const first = await idsOf(`${method} ${path} 1`)
    t.equal(first.length, 1, `${method} ${path} is ${operation}`)
    if (operation !== 'resetToken')
      t.same(await idsOf(`${method} ${path} 1`), first, `${operation}, repeated`)
    t.notSame(await idsOf(`${method} ${path} 2`), first, `${operation}, another key`)
  }
  const keyed = Object.entries(operations).flatMap(([name, { isKeyed }]) => (isKeyed ? [name] : []))
  // The upload host sends this one.
  const rest = keyed.filter((name) => name !== 'addFile' && !calls.some(([operation]) => operation === name))
  t.same(rest, [])
})
