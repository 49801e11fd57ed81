/**
 * The driver's control connection, kept from ending the process.
 *
 * Each event of a lost host or socket makes driver 4.10 acquire its control connection anew, also
 * while it is doing that already; the second round takes host and connection away under the first,
 * which then fails in a promise that nobody waits for (NODEJS-681). A paused Cassandra ended three
 * processes of ten so. Here one round runs at a time, an event meanwhile makes one more afterwards,
 * and one that fails is tried again.
 */
import type { Client } from 'cassandra-driver'

/** What is used of the driver's inside. */
interface ControlConnection {
  /** @param hosts left to try, when a round goes on. */
  _refresh(hosts?: unknown): Promise<void>
}

const retryMs = 1_000

/**
 * @returns the client @throws Error when the driver has no such control connection any more: then
 * this is to be looked at again.
 */
export function withSteadyControl(client: Client): Client {
  const { controlConnection } = client as unknown as { controlConnection?: ControlConnection }
  if (typeof controlConnection?._refresh !== 'function')
    throw new Error('this cassandra-driver acquires its control connection in another way')
  steady(controlConnection)
  return client
}

function steady(control: ControlConnection): void {
  const acquire = control._refresh.bind(control)
  let running: Promise<void> | undefined
  let again = false
  const round = async () => {
    do {
      again = false
      try {
        await acquire()
      } catch {
        setTimeout(() => void control._refresh(), retryMs).unref()
      }
    } while (again)
  }
  control._refresh = (hosts) => {
    // The round that runs goes on with the hosts that are left.
    if (hosts !== undefined) return acquire(hosts)
    if (running !== undefined) {
      again = true
      return running
    }
    running = round().finally(() => {
      running = undefined
    })
    return running
  }
}
