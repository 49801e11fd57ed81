/** A mail server that accepts every mail and keeps it: enough of RFC 5321 for a plain client. */
import { createServer, type Server, type Socket } from 'node:net'

export class SmtpServer {
  readonly mails: string[] = []
  readonly #server: Server
  readonly #sockets = new Set<Socket>()

  static start(): Promise<SmtpServer> {
    const smtp = new SmtpServer()
    return new Promise((resolve, reject) => {
      smtp.#server.once('error', reject)
      smtp.#server.listen(0, '127.0.0.1', () => resolve(smtp))
    })
  }

  private constructor() {
    this.#server = createServer((socket) => {
      this.#sockets.add(socket)
      socket.once('close', () => this.#sockets.delete(socket))
      socket.on('error', () => socket.destroy())
      serve(socket, (mail) => this.mails.push(mail))
    })
  }

  get url(): string {
    return `smtp://127.0.0.1:${(this.#server.address() as { port: number }).port}`
  }

  stop(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy()
    return new Promise((resolve) => this.#server.close(() => resolve()))
  }
}

function serve(socket: Socket, keep: (mail: string) => void): void {
  let text = ''
  let inData = false
  socket.write('220 test ESMTP\r\n')
  socket.on('data', (chunk) => {
    text += chunk.toString()
    for (;;) {
      const end = text.indexOf(inData ? '\r\n.\r\n' : '\r\n')
      if (end === -1) return
      const taken = text.slice(0, end)
      text = text.slice(end + (inData ? 5 : 2))
      if (inData) {
        keep(taken)
        inData = false
        socket.write('250 kept\r\n')
      } else inData = reply(socket, taken)
    }
  })
}

/** True when the mail itself comes next. */
function reply(socket: Socket, command: string): boolean {
  const verb = command.slice(0, 4).toUpperCase()
  if (verb === 'DATA') socket.write('354 go on\r\n')
  else if (verb === 'QUIT') socket.end('221 bye\r\n')
  else socket.write('250 ok\r\n')
  return verb === 'DATA'
}
