/**
 * How a later command reaches the running supervisor: a socket of this user, named in the data
 * directory.
 */
import { createHash } from 'node:crypto'
import { rmSync } from 'node:fs'
import { createServer, type IncomingMessage, request, type Server } from 'node:http'
import { tmpdir, userInfo } from 'node:os'
import { join } from 'node:path'
import { holderOf } from './hold.ts'

export type Command =
  | { do: 'stop' }
  | { do: 'restart'; name: string }
  /** Blocks or unblocks traffic from one region to another. */
  | { do: 'link'; from: string; to: string; cut: boolean }

/**
 * Where commands are accepted. Socket paths are short, so it is not in the data directory itself.
 * @param dataDir without links: the process that holds it has this socket
 */
export function socketOf(dataDir: string): string {
  const digest = createHash('sha256').update(dataDir).digest('hex').slice(0, 16)
  return join(tmpdir(), `holdfast-${userInfo().uid}-${digest}.sock`)
}

/** Listening when it resolves. An existing socket belongs to an earlier holder of the directory. */
export async function serveCommands(
  path: string,
  carryOut: (command: Command) => Promise<void>,
): Promise<Server> {
  rmSync(path, { force: true })
  const server = createServer((incoming, answer) => {
    commandOf(incoming)
      .then(carryOut)
      .then(
        () => answer.end(),
        (error: Error) => answer.writeHead(500).end(error.message),
      )
  })
  const before = process.umask(0o077)
  await new Promise<void>((resolve, reject) => server.once('error', reject).listen(path, resolve))
  process.umask(before)
  return server
}

async function commandOf(incoming: IncomingMessage): Promise<Command> {
  const parts: Buffer[] = []
  for await (const part of incoming) parts.push(part as Buffer)
  return JSON.parse(Buffer.concat(parts).toString()) as Command
}

/** No supervisor accepts commands for this directory. */
export class NotReached extends Error {
  override readonly name = 'NotReached'
}

/** Resolves when it is done. @throws NotReached; Error with the supervisor's message */
export function sendCommand(dataDir: string, command: Command): Promise<void> {
  return new Promise((resolve, reject) => {
    const holder = holderOf(dataDir)
    if (holder === undefined) throw new NotReached(`no cluster runs in ${dataDir}`)
    const asking = request({ socketPath: holder.socket, method: 'POST', agent: false }, (answer) => {
      let text = ''
      answer.setEncoding('utf8').on('data', (part: string) => {
        text += part
      })
      answer.on('error', reject)
      answer.on('end', () => (answer.statusCode === 200 ? resolve() : reject(new Error(text))))
    })
    asking.on('error', (cause) =>
      reject(
        new NotReached(
          `the cluster in ${dataDir} (process ${holder.pid}) accepts no commands at ${holder.socket}`,
          {
            cause,
          },
        ),
      ),
    )
    asking.end(JSON.stringify(command))
  })
}
