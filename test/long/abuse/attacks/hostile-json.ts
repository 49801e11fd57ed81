/** JSON bodies that cost much to read, without a token. */
import type { Attack } from '../attack.ts'
import { address, type HostileClient, json } from '../hostile.ts'

const paths = ['/contents/createFolder', '/accounts', '/contents/copy', '/contents/x/update']

const nestedBodies = [
  '['.repeat(256 * 1024),
  `${'['.repeat(131_000)}${']'.repeat(131_000)}`,
  `${'{"a":'.repeat(50_000)}1${'}'.repeat(50_000)}`,
  '['.repeat(1024 * 1024),
  `{"a":"${'\\u0000'.repeat(40_000)}"}`,
]

export const nestedJson: Attack = {
  name: 'nested JSON of 256 KiB and 1 MiB without a token',
  short: true,
  run: (hostile) => bodies(hostile, 50, nestedBodies),
}

const repeated = Array.from({ length: 20_000 }, () => '"token":"x"').join(',')
const distinct = Array.from({ length: 15_000 }, (_, n) => `"k${n}":1`).join(',')
const poisonedBodies = [
  '{"__proto__":{"tier":"premium","isOwner":true}}',
  '{"constructor":{"prototype":{"tier":"premium"}}}',
  '{"\\u005f_proto__":{"toString":1},"toString":null}',
  '{"token":"a","token":"b"}',
  `{${repeated}}`,
  `{${distinct}}`,
  `{"__proto__":{${distinct}}}`,
  `{"email":{"__proto__":[${'{},'.repeat(20_000)}{}]}}`,
]

export const poisonedJson: Attack = {
  name: 'poisoned prototypes and repeated keys in JSON',
  run: (hostile) => bodies(hostile, 51, poisonedBodies),
}

async function bodies(hostile: HostileClient, group: number, texts: readonly string[]): Promise<void> {
  const requests = texts.flatMap((text, at) => {
    const path = paths[at % paths.length] ?? '/accounts'
    return [Buffer.from(json(path, text, undefined, path.endsWith('/update') ? 'PUT' : 'POST'))]
  })
  await hostile.each(6, async (number) => {
    const bytes = requests[(number + hostile.inputs) % requests.length] as Buffer
    await hostile.once('api', withClose(bytes), { from: address(group, number) })
    await hostile.pause(20)
  })
}

/** The service closes after the answer, so that the next body begins with a new connection. */
function withClose(bytes: Buffer): Buffer {
  const headEnd = bytes.indexOf('\r\n\r\n')
  return Buffer.concat([
    bytes.subarray(0, headEnd),
    Buffer.from('\r\nConnection: close'),
    bytes.subarray(headEnd),
  ])
}
