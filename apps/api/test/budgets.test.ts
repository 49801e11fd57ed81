/** The default budgets reach the operations that they are named for. */
import { defaultPolicies } from '@holdfast/http-kit'
import t from 'tap'
import { world } from './world.ts'

t.test('each operation draws on the budget of its name', async (t) => {
  const { ask, folder, guest } = world(t, { limits: defaultPolicies })
  const ann = await guest('premium')
  const { id } = await folder(ann, ann.rootFolder, { public: true })
  const { token } = ann
  const destination = { contentsId: id, folderId: ann.rootFolder }
  const policyOf = async (method: string, path: string, rest: Parameters<typeof ask>[2]) =>
    String((await ask(method, path, rest)).headers['ratelimit-policy']).replace(/^"\w+";/, '')
  t.equal(await policyOf('GET', `/contents/${id}`, { token }), 'q=1000;w=10')
  t.equal(await policyOf('GET', `/contents/search?contentId=${id}&searchedString=x`, { token }), 'q=200;w=10')
  t.equal(
    await policyOf('GET', `/web/contents/search?contentId=${id}&searchedString=x`, { token }),
    'q=200;w=10',
  )
  t.equal(await policyOf('POST', '/web/contents/copy', { token, body: destination }), 'q=300;w=10')
  t.equal(await policyOf('POST', '/contents/copy', { token, body: destination }), 'q=300;w=10')
  t.equal(await policyOf('POST', '/contents/import', { token, body: { contentsId: id } }), 'q=300;w=10')
  t.equal(await policyOf('GET', `/web/contents/${id}`, {}), 'q=500;w=10')
  t.equal(await policyOf('POST', '/accounts', {}), 'q=120;w=60')
  t.equal(await policyOf('POST', `/accounts/${ann.id}/resettoken`, { token }), 'q=10;w=600')
})
