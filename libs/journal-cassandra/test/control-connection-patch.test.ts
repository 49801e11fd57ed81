/**
 * The driver's own control connection, with its network access replaced: rounds that overlap, and
 * one that fails.
 */
import { EventEmitter, once } from 'node:events'
import cassandra from 'cassandra-driver'
import t from 'tap'
import { withSteadyControl } from '../src/control-connection-patch.ts'

interface DriverInternals {
  host: EventEmitter | null
  connection: EventEmitter | null
  _refresh(): Promise<void>
  _refreshControlConnection(): Promise<void>
  _refreshHosts(): Promise<void>
  _registerToConnectionEvents(): Promise<void>
}

/** A control connection each of whose rounds waits for its hosts until it is released. */
function world({ steady }: { steady: boolean }) {
  const client = new cassandra.Client({ contactPoints: ['127.0.0.1'], localDataCenter: 'here' })
  if (steady) withSteadyControl(client)
  const { controlConnection: control } = client as unknown as { controlConnection: DriverInternals }
  const steps = new EventEmitter()
  let rounds = 0
  control._refreshControlConnection = async () => {
    rounds++
    control.host = new EventEmitter()
    control.connection = Object.assign(new EventEmitter(), { endpointFriendlyName: 'here' })
  }
  control._refreshHosts = async () => {
    const go = once(steps, 'go')
    steps.emit('waiting')
    await go
  }
  control._registerToConnectionEvents = async () => {}
  return { control, steps, rounds: () => rounds }
}

t.test('the driver has the fault that the patch prevents', async (t) => {
  const { control, steps } = world({ steady: false })
  const waiting = once(steps, 'waiting')
  const first = control._refresh()
  await waiting
  control._refreshControlConnection = () => new Promise(() => {})
  void control._refresh()
  // The second one has taken the host away, and finds no other.
  steps.emit('go')
  await t.rejects(first, TypeError)
})

t.test('an event during a round causes one more after it', async (t) => {
  const { control, steps, rounds } = world({ steady: true })
  const waiting = once(steps, 'waiting')
  const first = control._refresh()
  await waiting
  const others = [control._refresh(), control._refresh()]
  t.equal(rounds(), 1)
  const next = once(steps, 'waiting')
  steps.emit('go')
  await next
  t.equal(rounds(), 2)
  steps.emit('go')
  await Promise.all([first, ...others])
  t.equal(rounds(), 2)
  t.ok(control.host)
})

t.test('a failed round ends nothing and is retried', async (t) => {
  const { control, steps, rounds } = world({ steady: true })
  const get = control._refreshControlConnection
  control._refreshControlConnection = async () => {
    await get()
    // As an overlapping round would.
    control._registerToConnectionEvents = async () => {
      control.host = null
    }
  }
  const waiting = once(steps, 'waiting')
  const first = control._refresh()
  await waiting
  steps.emit('go')
  await first
  t.equal(rounds(), 1)
  control._refreshControlConnection = get
  // A timer that does not keep the process alive retries.
  const open = setTimeout(() => {}, 60_000)
  await once(steps, 'waiting')
  clearTimeout(open)
  t.equal(rounds(), 2)
})
