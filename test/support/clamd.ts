/** Debian's clamd on a socket of its own, which knows one signature: that of the EICAR file. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { tool } from '../../infra/check/tools.ts'

/** In two parts, so that scanners leave this file alone. */
export const eicar = Buffer.from(
  ['X5O!P%@AP[4\\PZX54(P^)7CC)7}$', 'EICAR-STANDARD-ANTIVIRUS-TEST-FILE!$H+H*'].join(''),
)

/** Name of the signature; databases that are not official add the rest. */
export const eicarName = 'Eicar-Test-Signature.UNOFFICIAL'
const startMsMax = 30_000

export class Clamd {
  readonly path: string
  readonly port: number
  readonly #folder: string
  #child: ChildProcess | undefined

  /** @param folder empty, the test's own. */
  constructor(folder: string, port: number) {
    this.#folder = folder
    this.port = port
    this.path = join(folder, 'clamd.ctl')
    mkdirSync(join(folder, 'signatures'))
    const signature = `Eicar-Test-Signature:0:*:${eicar.toString('hex')}\n`
    writeFileSync(join(folder, 'signatures', 'eicar.ndb'), signature)
    const lines = [
      ...[`LocalSocket ${this.path}`, `TCPSocket ${port}`, 'TCPAddr 127.0.0.1'],
      ...[`DatabaseDirectory ${join(folder, 'signatures')}`, 'Foreground yes', 'StreamMaxLength 2M'],
    ]
    writeFileSync(join(folder, 'clamd.conf'), `${lines.join('\n')}\n`)
  }

  /** It answers when it resolves. */
  async start(): Promise<void> {
    const { path, env } = tool('clamd')
    const child = spawn(path, ['--config-file', join(this.#folder, 'clamd.conf')], { env, stdio: 'pipe' })
    this.#child = child
    let said = ''
    for (const output of [child.stdout, child.stderr]) output.on('data', (piece) => (said += piece))
    for (const until = Date.now() + startMsMax; ; await delay(50)) {
      if (await this.#answers()) return
      if (child.exitCode !== null || Date.now() > until) throw new Error(`clamd does not start: ${said}`)
    }
  }

  /** Pauses it with its connections: it does not answer until it continues. */
  freeze(): void {
    this.#child?.kill('SIGSTOP')
  }

  goOn(): void {
    this.#child?.kill('SIGCONT')
  }

  async stop(): Promise<void> {
    const child = this.#child
    this.#child = undefined
    if (child === undefined || child.exitCode !== null) return
    const ended = once(child, 'exit')
    child.kill('SIGKILL')
    await ended
  }

  async #answers(): Promise<boolean> {
    const socket = connect(this.path)
    try {
      await once(socket, 'connect')
      socket.write('zPING\0')
      const [answer] = (await once(socket, 'data')) as [Buffer]
      return answer.toString() === 'PONG\0'
    } catch {
      return false
    } finally {
      socket.destroy()
    }
  }
}
