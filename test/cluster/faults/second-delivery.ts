/**
 * Delivers every command to its actor host a second time, right after the first: a bus may do that.
 */
import { type ConnectionOptions, connect } from 'nats'

/** Requests and replies in the way of `NatsBus`. */
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
  // Its own messages are not delivered to it.
  const connection = await connect({ ...server, noEcho: true })
  let count = 0
  for (const host of hosts)
    connection.subscribe(subjectOf(host), {
      callback: (error, message) => {
        if (error !== null || !message.reply) return
        count++
        connection.publish(subjectOf(host), Buffer.from(message.data), { reply: 'unheard.answers' })
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
