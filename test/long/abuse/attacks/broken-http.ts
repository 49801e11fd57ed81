/** Malformed and minimal requests: garbage, huge heads, false addresses, short connections. */
import { type Attack, type Listener, listeners } from '../attack.ts'
import { address, type HostileClient, request } from '../hostile.ts'

const name = 'x'.repeat(8_000)
const hugeHeads = [
  request(`/${'a'.repeat(15_000)}`),
  request('/status', { headers: [`X-Huge: ${'a'.repeat(60_000)}`] }),
  request('/status', { headers: Array.from({ length: 2_500 }, (_, n) => `X${n}: y`) }),
  request('/status', { headers: Array.from({ length: 500 }, () => 'Cookie: accountToken=x') }),
  request(`/web/contents/x?${Array.from({ length: 1_500 }, (_, n) => `k${n}=v`).join('&')}`),
  request(`/d/${'%41'.repeat(5_000)}`),
  `GET /status HTTP/1.1\r\nHost: ${name}\r\n\r\n`,
]

export const hugeHeaders: Attack = {
  name: 'huge heads on every listener',
  run: (hostile) => on(hostile, 80, hugeHeads),
}

const broken = [
  '\0\0\0\0\r\n\r\n',
  '\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03',
  'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
  'GET  HTTP/1.1\r\n\r\n',
  'GET / HTTP/9.9\r\nHost: x\r\n\r\n',
  'GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n',
  'GET / HTTP/1.1\nHost: x\n\n',
  'GET / HTTP/1.1\r\n : x\r\n\r\n',
  'POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n',
  'POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
  'POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n',
  'POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n',
  'GET / HTTP/1.1\r\nHost: x\r\nExpect: nonsense\r\n\r\n',
  'GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n',
  'CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n',
  'TRACE / HTTP/1.1\r\nHost: x\r\n\r\n',
  'GET http://[::1:80/ HTTP/1.1\r\nHost: x\r\n\r\n',
  'GET /%ff%fe%00 HTTP/1.1\r\nHost: x\r\n\r\n',
]

export const brokenHttp: Attack = {
  name: 'broken HTTP on every listener',
  run: (hostile) => on(hostile, 81, broken),
}

const falseAddresses = [
  '1.2.3.4:5555',
  '[2001:db8::1]:80',
  'unknown',
  '127.0.0.1',
  Array.from({ length: 300 }, (_, n) => `10.0.0.${n % 255}`).join(', '),
  '999.1.1.1',
  '::ffff:127.0.0.1%lo',
  ',,,,',
]

export const forwardedFor: Attack = {
  name: 'false X-Forwarded-For',
  run: async (hostile) => {
    const burst = falseAddresses
      .flatMap((from) => [
        request('/status', { headers: [`X-Forwarded-For: ${from}`, `Forwarded: for=${from}`] }),
        request('/accounts/getid', { headers: [`X-Forwarded-For: ${from}`, 'Authorization: Bearer x'] }),
      ])
      .join('')
    await hostile.each(6, async (number) => {
      const socket = hostile.connect('api', { from: address(82, number) })
      for (let turn = 0; turn < 20; turn++) {
        hostile.sent(falseAddresses.length * 2)
        if (!(await hostile.write(socket, burst))) break
        await hostile.pause(100)
      }
      socket.destroy()
    })
  },
}

export const comingAndGoing: Attack = {
  name: 'connections that come and go at once',
  run: async (hostile) => {
    await hostile.each(16, async (number) => {
      const listener = listeners[number % listeners.length] as Listener
      const socket = hostile.connect(listener, { from: fromOf(listener, 83, number), answers: 'drop' })
      hostile.sent()
      if (number % 3 > 0) await hostile.write(socket, number % 3 === 1 ? 'G' : request('/status'))
      else await new Promise((resolve) => socket.once('connect', resolve).once('close', resolve))
      socket.resetAndDestroy()
      await hostile.pause(2)
    })
  },
}

async function on(hostile: HostileClient, group: number, texts: readonly string[]): Promise<void> {
  await hostile.each(12, async (number) => {
    const listener = listeners[number % listeners.length] as Listener
    const text = texts[hostile.inputs % texts.length] ?? ''
    await hostile.once(listener, text, { from: fromOf(listener, group, number) })
  })
}

/** The admin host answers its own machine's usual address. */
function fromOf(listener: Listener, group: number, number: number): string {
  return listener === 'admin' ? '127.0.0.1' : address(group, number)
}
