/**
 * A planted slowdown: loaded into the service before anything else (`--slowed`), to see that
 * `--check` finds it. `burn=MICROS`: the main thread burns CPU for this long with each request and
 * each chunk of a body; `wait=MS`: each request waits first.
 */
import { IncomingMessage, Server } from 'node:http'

const [kind, amount] = (process.env.BENCH_SLOWED ?? '').split('=')
if ((kind !== 'burn' && kind !== 'wait') || !(Number(amount) > 0))
  throw new Error(`--slowed takes burn=MICROS or wait=MS, not ${process.env.BENCH_SLOWED}`)
const micros = kind === 'burn' ? Number(amount) : 0
const waitMs = kind === 'wait' ? Number(amount) : 0

function burn(): void {
  for (const until = performance.now() + micros / 1000; performance.now() < until; );
}

const { emit } = Server.prototype
Server.prototype.emit = function (this: Server, event: string | symbol, ...given: unknown[]): boolean {
  if (event !== 'request') return Reflect.apply(emit, this, [event, ...given])
  burn()
  if (waitMs === 0) return Reflect.apply(emit, this, [event, ...given])
  setTimeout(() => Reflect.apply(emit, this, [event, ...given]), waitMs)
  return true
}

const { push } = IncomingMessage.prototype
IncomingMessage.prototype.push = function (this: IncomingMessage, chunk: unknown, ...rest): boolean {
  burn()
  return push.call(this, chunk, ...rest)
}
