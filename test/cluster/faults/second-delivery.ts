/**
 * Delivers every command to its actor host once more, right behind the first time: a bus may do
 * that.
 */
import { type ConnectionOptions, connect } from 'nats'

/** Asked and answered as `NatsBus` does it. */
const subjectOf = (host: string) => `ask.accounts.${host}`

export interface SecondDelivery {
  /** Commands that were delivered twice. */
  readonly count: number
  end(): Promise<void>
}

export async function deliverTwice(
  server: ConnectionOptions,
  hosts: readonly string[],
): Promise<SecondDelivery> {
  // What it sends itself does not come back to it.
  const connection = await connect({ ...server, noEcho: true })
  let count = 0
  for (const host of hosts)
    connection.subscribe(subjectOf(host), {
      callback: (error, message) => {
        if (error !== null || !message.reply) return
        count++
        connection.publish(subjectOf(host), Buffer.from(message.data), { reply: 'nobody.listens' })
      },
    })
  await connection.flush()
  return {
    get count() {
      return count
    },
    end: () => connection.drain(),
  }
}
