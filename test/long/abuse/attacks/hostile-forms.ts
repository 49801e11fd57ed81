/**
 * Forms that cost much to read: spaces in part headers, a thousand parts, bodies in chunks of one
 * byte.
 */
import type { Attack, Listener } from '../attack.ts'
import {
  address,
  filePartHead,
  formBoundary,
  formHead,
  formTail,
  type HostileClient,
  request,
} from '../hostile.ts'

const spaces = ' '.repeat(16_000)
const formPaths: readonly [Listener, string][] = [
  ['upload', '/uploadfile'],
  ['upload', '/uploadFile'],
  ['upload', '/contents/uploadfile'],
  ['api', '/uploadfile'],
  ['api', '/contents/uploadfile'],
  ['api', '/accounts'],
  ['download', '/uploadfile'],
  ['admin', '/uploadfile'],
]

/**
 * Each part has a header of only a name and spaces, in one of the places where spaces are allowed.
 */
const spacedHeaders = [`X: a${spaces}b`, `X${spaces}: a`, `X:${spaces}`, `X: ${spaces}a${spaces.slice(0, 8)}`]
const spacedForm = Buffer.from(
  [
    ...Array.from({ length: 100 }, (_, number) => {
      const disposition = `Content-Disposition: form-data; name="field${number}"`
      return `--${formBoundary}\r\n${disposition}\r\n${spacedHeaders[number % 4]}\r\n\r\nvalue\r\n`
    }),
    `--${formBoundary}--\r\n`,
  ].join(''),
)

export const spacesInPartHeaders: Attack = {
  name: 'spaces in part headers, every listener',
  run: (hostile) => forms(hostile, 10, spacedForm),
}

const parts = 1_000
const manyParts = Buffer.from(
  [
    ...Array.from(
      { length: parts },
      (_, n) => `--${formBoundary}\r\nContent-Disposition: form-data; name="f${n}"\r\n\r\n${n}\r\n`,
    ),
    `--${formBoundary}--\r\n`,
  ].join(''),
)

export const formOfManyParts: Attack = {
  name: 'forms of 1,000 parts',
  run: (hostile) => forms(hostile, 11, manyParts),
}

async function forms(hostile: HostileClient, group: number, form: Buffer): Promise<void> {
  await hostile.each(formPaths.length, async (number) => {
    const [listener, path] = formPaths[number] as [Listener, string]
    const bytes = Buffer.concat([Buffer.from(formHead(path, { bytes: form.length })), form])
    const from = listener === 'admin' ? '127.0.0.1' : address(group, number)
    await hostile.once(listener, bytes, { from })
    await hostile.pause(200)
  })
}

/** 64 KiB on the wire, some 11,000 bytes of file. */
const tinyChunks = Buffer.from('1\r\nx\r\n'.repeat(10_923))

export const tinyChunksInUploads: Attack = {
  name: 'uploads in chunks of 1 byte: 70 connections',
  run: async (hostile) => {
    await hostile.each(70, async (number) => {
      const socket = hostile.connect('upload', { from: address(12, number % 7) })
      hostile.sent()
      const first = `${filePartHead.length.toString(16)}\r\n${filePartHead}\r\n`
      let going = await hostile.write(socket, formHead('/uploadfile') + first)
      for (let turn = 0; going && turn < 200; turn++) going = await hostile.write(socket, tinyChunks)
      socket.destroy()
      await hostile.pause(100)
    })
  },
}

export const abortedUploads: Attack = {
  name: 'aborted uploads: 24 at a time',
  run: async (hostile) => {
    const block = Buffer.alloc(300_000, 'a')
    await hostile.each(24, async (number) => {
      const socket = hostile.connect('upload', { from: address(13, number % 6) })
      hostile.sent()
      await hostile.write(socket, formHead('/uploadfile', { bytes: 50_000_000 }) + filePartHead)
      for (let turn = 0; turn < number % 5; turn++) await hostile.write(socket, block)
      await hostile.pause(20)
      socket.resetAndDestroy()
    })
  },
}

/** What an upload sends in a second: above what the service takes for a dead client. */
const slowBytes = 1_300

export const slowUploads: Attack = {
  name: 'slow uploads from 4 addresses fill all stages',
  short: true,
  seconds: 12,
  run: async (hostile) => {
    const each = 300
    const sockets = new Set<ReturnType<HostileClient['connect']>>()
    const block = Buffer.alloc(slowBytes, 'a')
    const feeding = hostile.each(1, async () => {
      for (const socket of sockets) socket.write(block)
      await hostile.pause(1_000)
    })
    const holding = hostile.hold(
      4 * each,
      (number) => hostile.connect('upload', { from: address(14, number % 4) }),
      (socket) => {
        // Enough at first that the store must accept it.
        socket.write(formHead('/uploadfile', { bytes: 100_000_000 }) + filePartHead)
        socket.write(Buffer.alloc(20_000, 'a'))
        sockets.add(socket)
        socket.once('close', () => sockets.delete(socket))
      },
    )
    await Promise.all([feeding, holding])
  },
}

export const uploadsWithoutToken: Attack = {
  name: 'uploads without a token from one address',
  run: async (hostile) => {
    const form = Buffer.from(`${filePartHead}hostile${formTail}`)
    const bytes = Buffer.concat([Buffer.from(formHead('/uploadfile', { bytes: form.length })), form])
    await hostile.each(8, async () => {
      const socket = hostile.connect('upload', { from: address(15) })
      for (let turn = 0; turn < 50; turn++) {
        hostile.sent()
        if (!(await hostile.write(socket, bytes))) break
        await hostile.pause(20)
      }
      socket.destroy()
    })
  },
  judge: ({ tally, seconds }) => {
    const accountsMax = 120 * Math.ceil((seconds + 60) / 60)
    const made = tally['200'] ?? 0
    return made > accountsMax ? [`one address made ${made} accounts by uploads, ${accountsMax} at most`] : []
  },
}

export const notQuiteForms: Attack = {
  name: 'forms without end, boundary or sense',
  run: async (hostile) => {
    const bodies = [
      '',
      `--${formBoundary}`,
      `--${formBoundary}--`,
      `--${formBoundary}\r\n`.repeat(4_000),
      `--${formBoundary}\r\n${'X: y\r\n'.repeat(20_000)}`,
      '\r\n'.repeat(100_000),
      `${filePartHead}${`\r\n--${formBoundary.slice(0, -1)}`.repeat(10_000)}`,
    ]
    await hostile.each(8, async (number) => {
      const body = Buffer.from(bodies[(number + hostile.inputs) % bodies.length] ?? '')
      const heads = [
        formHead('/uploadfile', { bytes: body.length }),
        request('/uploadfile', { method: 'POST', headers: ['Content-Type: multipart/form-data'], body: '' }),
      ]
      const bytes = Buffer.concat([Buffer.from(heads[hostile.inputs % 2] ?? ''), body])
      await hostile.once('upload', bytes, { from: address(16, number) })
    })
  },
}
