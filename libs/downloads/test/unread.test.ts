/** Downloads whose readers do not read. */
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { AnswerBudget, SmallPiecesLane } from '@holdfast/http-kit'
import { plainBudget } from '@holdfast/http-kit/testing'
import t from 'tap'
import { OneProcess } from '../../../test/support/one-process.ts'

const MiB = 1024 * 1024

t.test('readers that do not read hold no more than the budget, and others are served', async (t) => {
  const answers = new AnswerBudget(plainBudget, { bytesMax: 2 * MiB, stalledMs: 400, sweepMs: 50 })
  const budgets = {
    connections: { max: 1_000, perNetworkMax: 1_000 },
    answers,
    tls: undefined,
    lane: new SmallPiecesLane(),
    tracer: undefined,
  }
  const process = await OneProcess.start({ budgets })
  t.teardown(() => process.close())
  const { token } = await process.newAccount()
  const bytes = randomBytes(16 * MiB)
  const stage = await process.blobs.stage()
  for (let at = 0; at < bytes.length; at += MiB) await stage.write(bytes.subarray(at, at + MiB))
  const info = await stage.commit({ pinMs: 60_000 })
  const blob = {
    ...info,
    id: Buffer.from(info.id),
    incarnation: Buffer.from(info.incarnation),
    placementGroup: 0,
  }
  const { item } = await process.ask(token, 'content', {
    $case: 'addFile',
    value: {
      createAccount: undefined,
      folderId: undefined,
      name: 'a',
      mimetype: 'a/b',
      blob,
      modTime: undefined,
    } as never,
  })
  const path = `/download/${item?.id}/a`
  const sockets: Socket[] = []
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
  })
  let dropped = 0
  for (let at = 0; at < 60; at++) {
    const socket = connect({ port: process.downloadPort, host: '127.0.0.1' }).on('error', () => {})
    socket.once('close', () => dropped++)
    socket.write(
      `GET ${path} HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 10.0.0.1\r\nAuthorization: Bearer ${token}\r\n\r\n`,
    )
    // Its head is read, nothing more.
    socket.once('readable', () => {})
    sockets.push(socket)
    await once(socket, 'connect')
  }
  let most = 0
  const watch = setInterval(() => {
    most = Math.max(most, answers.held)
  }, 1)
  const answer = await fetch(`http://127.0.0.1:${process.downloadPort}${path}`, {
    headers: { 'x-forwarded-for': '10.0.0.2', authorization: `Bearer ${token}` },
  })
  t.ok(bytes.equals(Buffer.from(await answer.arrayBuffer())), 'another network is served meanwhile')
  while (answers.scarce) await new Promise((resolve) => setTimeout(resolve, 20))
  clearInterval(watch)
  // Bytes that were made while networks were still unknown exceed the bound: one piece of each
  // answer at most.
  t.ok(most <= 2 * MiB + MiB, `${most} bytes were held`)
  t.ok(most > MiB, 'the budget was scarce')
  for (const socket of sockets) socket.destroy()
  while (answers.held > 0) await new Promise((resolve) => setTimeout(resolve, 5))
  t.pass('everything is returned')
})
