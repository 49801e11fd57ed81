/** How a later command reaches the supervisor that runs: a socket of this user's, named by the data directory. */
import { createHash } from 'node:crypto'
import { rmSync } from 'node:fs'
import { createServer, type IncomingMessage, request, type Server } from 'node:http'
import { tmpdir, userInfo } from 'node:os'
import { join } from 'node:path'

export type Command =
  | { do: 'stop' }
  | { do: 'restart'; name: string }
  /** What goes from one region to another stands still, or goes on. */
  | { do: 'link'; from: string; to: string; cut: boolean }
  | { do: 'ping' }

/** Paths of sockets are short: not in the data directory itself. */
function socketOf(dataDir: string): string {
  const digest = createHash('sha256').update(dataDir).digest('hex').slice(0, 16)
  return join(tmpdir(), `holdfast-${userInfo().uid}-${digest}.sock`)
}

/** Listening when it resolves. @throws Error when another supervisor has this directory. */
export async function serveCommands(
  dataDir: string,
  carryOut: (command: Command) => Promise<void>,
): Promise<Server> {
  if (
    await tell(dataDir, { do: 'ping' }).then(
      () => true,
      () => false,
    )
  )
    throw new Error(`a cluster runs in ${dataDir} already: npm run cluster -- --stop ends it`)
  const path = socketOf(dataDir)
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

/** Resolves when it is done. @throws Error with the supervisor's words, or that there is none. */
export function tell(dataDir: string, command: Command): Promise<void> {
  return new Promise((resolve, reject) => {
    const asking = request({ socketPath: socketOf(dataDir), method: 'POST' }, (answer) => {
      let text = ''
      answer.setEncoding('utf8').on('data', (part: string) => {
        text += part
      })
      answer.on('error', reject)
      answer.on('end', () => (answer.statusCode === 200 ? resolve() : reject(new Error(text))))
    })
    asking.on('error', () => reject(new Error(`no cluster runs in ${dataDir}`)))
    asking.end(JSON.stringify(command))
  })
}
