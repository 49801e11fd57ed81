import { AnswerBudget } from '@holdfast/http-kit'
import { plainBudget } from '@holdfast/http-kit/testing'
import { blank, SetAccount } from '@holdfast/wire'
import t, { type Test } from 'tap'
import { world } from './world.ts'

const folders = 60
const tags = Array.from({ length: 50 }, (_, at) => `${'文'.repeat(22)}${100 + at}`).join(',')

/** Notes what answers take before they are made. */
class NotedBudget extends AnswerBudget {
  readonly taken: number[] = []

  override open(network: string, drop: () => void) {
    const share = super.open(network, drop)
    const take = (bytes: number) => {
      this.taken.push(bytes)
      return share.take(bytes)
    }
    return { ...bound(share), take }
  }
}

function bound(share: ReturnType<AnswerBudget['open']>) {
  const { take, keep, make, next, close } = share
  return {
    take: take.bind(share),
    keep: keep.bind(share),
    make: make.bind(share) as typeof make,
    next: next.bind(share),
    close: close.bind(share),
  }
}

/** A folder whose children have the longest texts. */
async function wordy(t: Test) {
  const answers = new NotedBudget(plainBudget)
  const { app, ask, command, folder, guest } = world(t, { answers })
  const ann = await guest('premium')
  const { token } = ann
  const top = await folder(ann, ann.rootFolder, { public: true })
  const ids: string[] = []
  for (let at = 0; at < folders; at++) {
    const { id } = await folder(ann, top.id, { folderName: '🗂'.repeat(255) })
    ids.push(id)
    for (const [attribute, attributeValue] of [
      ['description', '🗂'.repeat(1_000)],
      ['tags', tags],
    ])
      await ask('PUT', `/contents/${id}/update`, { token, body: { attribute, attributeValue } })
  }
  const answeredBytes = async (method: 'GET' | 'DELETE', url: string, body?: object) => {
    answers.taken.length = 0
    const headers = { authorization: `Bearer ${token}`, prefer: 'return=representation' }
    const answer = await app.inject({ method, url, headers, ...(body && { payload: body }) })
    t.equal(answer.statusCode, 200)
    return { sent: answer.rawPayload.length, taken: answers.taken[0] ?? 0 }
  }
  const enableBin = () =>
    command(ann.id, { $case: 'setAccount', value: { ...blank(SetAccount), recycleBin: true } })
  return { ask, answeredBytes, enableBin, ids, token, top }
}

function near(t: Test, { sent, taken }: { sent: number; taken: number }, what: string) {
  t.ok(taken > 0.7 * sent && taken < 1.3 * sent, `${what}: ${taken} of ${sent} bytes`)
}

t.test('answers take about as many bytes as they send, for all texts', async (t) => {
  const { answeredBytes, enableBin, ids, top } = await wordy(t)
  near(t, await answeredBytes('GET', `/web/contents/${top.id}`), 'a listing')
  near(t, await answeredBytes('GET', `/contents/search?contentId=${top.id}&searchedString=文`), 'a search')
  await enableBin()
  near(t, await answeredBytes('DELETE', '/contents', { contentsId: ids.join(',') }), 'a deletion')
  near(t, await answeredBytes('GET', '/recyclebin'), 'the bin')
})

t.test('direct links count', async (t) => {
  const { ask, answeredBytes, ids, token, top } = await wordy(t)
  const domainsAllowed = Array.from({ length: 20 }, (_, at) => `${'a'.repeat(60)}.${at}.example`)
  for (const id of ids)
    for (let made = 0; made < 2; made++)
      await ask('POST', `/contents/${id}/directlinks`, { token, body: { domainsAllowed } })
  near(t, await answeredBytes('GET', `/web/contents/${top.id}`), 'a listing')
})
