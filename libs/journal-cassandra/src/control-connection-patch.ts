/**
 * Prevents the driver's control connection from ending the process.
 *
 * Each event of a lost host or socket makes driver 4.10 acquire its control connection again, even
 * while it is already doing that. The second round takes host and connection away from the first,
 * which then fails in a promise that no code awaits (NODEJS-681). A paused Cassandra ended three
 * processes of ten this way. Here one round runs at a time, an event meanwhile causes one more
 * afterwards, and a failed one is retried.
 */
import type { Client } from 'cassandra-driver'

/** The used part of the driver's internals. */
interface ControlConnection {
  /** @param hosts left to try, when a round continues. */
  _refresh(hosts?: unknown): Promise<void>
}

const retryMs = 1_000

/**
 * @returns the client @throws Error when the driver no longer has such a control connection: then
 *   review this code.
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
    // The running round continues with the remaining hosts.
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
