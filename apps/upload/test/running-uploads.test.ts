import { Registry } from 'prom-client'
import t from 'tap'
import { RunningUploads, type UploadPlace } from '../src/running-uploads.ts'
import { UploadMetrics } from '../src/upload-metrics.ts'

interface Bounds {
  perNetworkMax: number
  uploadsMax: number
  stagesMax: number
}

function world(bounds: Bounds) {
  const registry = new Registry()
  const time = { ms: 0 }
  const metrics: UploadMetrics = new UploadMetrics(registry, () => running.figures)
  const running = new RunningUploads({ ...bounds, now: () => time.ms, metrics })
  const cut: string[] = []
  const begin = (network: string, name = network): UploadPlace =>
    running.begin(network, { isComplete: false, cutOff: ({ status }) => cut.push(`${name} ${status}`) })
  const values = async (name: string) => (await registry.getSingleMetric(name)?.get())?.values ?? []
  const inFlight = async (what = '') => (await values(`holdfast_uploads_in_flight${what}`))[0]?.value
  const withoutPlace = async (reason: string) =>
    (await values('holdfast_uploads_without_place_total')).find(({ labels }) => labels.reason === reason)
      ?.value
  return { time, cut, begin, inFlight, withoutPlace }
}

t.test('places, stages and bytes are counted while uploads run', async (t) => {
  const { begin, inFlight } = world({ perNetworkMax: 4, uploadsMax: 10, stagesMax: 10 })
  const first = begin('a')
  const second = begin('b')
  first.takeStage()
  first.takeStage()
  first.bytes = 5
  second.bytes = 7
  t.equal(await inFlight(), 2)
  t.equal(await inFlight('_stages'), 1)
  t.equal(await inFlight('_bytes'), 12)
  first.end()
  first.end()
  t.equal(await inFlight(), 1)
  t.equal(await inFlight('_stages'), 0)
  t.equal(await inFlight('_bytes'), 7)
  second.end()
  t.equal(await inFlight(), 0)
})

t.test('an upload beyond the bound of its network is refused and counted', async (t) => {
  const { begin, withoutPlace } = world({ perNetworkMax: 1, uploadsMax: 10, stagesMax: 10 })
  begin('a')
  t.throws(() => begin('a'), /error-rateLimit/)
  t.equal(await withoutPlace('network'), 1)
})

t.test('while places are scarce a network gets its share, and one more is counted', async (t) => {
  const { begin, withoutPlace } = world({ perNetworkMax: 4, uploadsMax: 4, stagesMax: 10 })
  begin('a')
  begin('a')
  begin('b')
  t.throws(() => begin('a'), /error-rateLimit/)
  t.equal(await withoutPlace('share'), 1)
})

t.test('a new network takes the place of the slowest upload of the largest one, counted', async (t) => {
  const { begin, cut, inFlight, withoutPlace } = world({ perNetworkMax: 4, uploadsMax: 2, stagesMax: 9 })
  begin('a', 'fast').bytes = 1_000
  const slow = begin('a', 'slow')
  slow.bytes = 10
  begin('b')
  t.strictSame(cut, ['slow error-unavailable'])
  t.equal(await withoutPlace('made room'), 1)
  t.equal(await inFlight(), 2)
})

t.test('when all places belong to fast uploads a new one is refused and counted', async (t) => {
  const { begin, time, withoutPlace } = world({ perNetworkMax: 4, uploadsMax: 2, stagesMax: 9 })
  for (const network of ['a', 'b']) begin(network).bytes = 1e9
  time.ms = 10_000
  t.throws(() => begin('c'), /error-unavailable/)
  t.equal(await withoutPlace('full'), 1)
})
