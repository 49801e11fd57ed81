/** New content is scanned before others may read it: by Debian's clamd, and by programs. */
import { randomBytes } from 'node:crypto'
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { freePort } from '../../../infra/servers/ports.ts'
import { Clamd, eicar, eicarName } from '../../../test/support/clamd.ts'
import type { Standalone } from '../src/index.ts'
import { dataDir, operator, startHere } from './run.ts'

async function start(t: Test, more: Record<string, string>) {
  const service = await startHere(dataDir(t), {
    HOLDFAST_RATE_LIMITS: 'off',

    ...more,
  })
  t.teardown(() => service.close())
  const ctl = (...words: string[]) => operator([...words, '--admin', new URL(service.addresses.admin).host])
  return { service, ctl, scanning: async () => (await ctl('status')).answer.scanning }
}

async function startClamd(t: Test): Promise<Clamd> {
  const clamd = new Clamd(dataDir(t), await freePort())
  t.teardown(() => clamd.stop())
  await clamd.start()
  return clamd
}

async function send(service: Standalone, bytes: Uint8Array<ArrayBuffer>, name = 'a.bin') {
  const form = new FormData()
  form.set('file', new File([bytes], name))
  const answer = await fetch(`${service.addresses.upload}/uploadfile`, { method: 'POST', body: form })
  // biome-ignore lint/suspicious/noExplicitAny: answers that the test inspects
  const { status, data } = (await answer.json()) as any
  return { code: answer.status, status, data, retryAfter: answer.headers.get('retry-after') }
}

/** A program that counts its runs and does what the lines say. */
function programIn(t: Test, lines: string): { path: string; runs(): number } {
  const folder = dataDir(t)
  const path = join(folder, 'scan')
  writeFileSync(path, `#!/bin/sh\necho run >> ${folder}/runs\n${lines}\n`)
  chmodSync(path, 0o755)
  const log = join(folder, 'runs')
  return {
    path,
    runs: () => (existsSync(log) ? readFileSync(log, 'utf8').split('\n').length - 1 : 0),
  }
}

/** The command lines of all processes of this machine. */
function runningCommands(): string {
  const processes = readdirSync('/proc').filter((name) => /^\d+$/.test(name))
  return processes
    .map((pid) => {
      try {
        return readFileSync(join('/proc', pid, 'cmdline'), 'utf8').replaceAll('\0', ' ')
      } catch {
        return ''
      }
    })
    .join('\n')
}

t.test('clamd finds the EICAR file in an upload, and its copies are blocked', async (t) => {
  const clamd = await startClamd(t)
  const infected = Buffer.concat([randomBytes(700_000), eicar])
  // Stored before there was a scanner.
  const folder = dataDir(t)
  const before = await startHere(folder, { HOLDFAST_RATE_LIMITS: 'off' })
  const old = await send(before, infected, 'old.bin')
  t.equal(old.code, 200)
  await before.close()
  const { service, ctl, scanning } = await start(t, {
    HOLDFAST_SCANNER: `clamd:${clamd.path}`,
    HOLDFAST_DATA_DIR: folder,
  })
  const link = `${service.addresses.download}${new URL(old.data.link).pathname}`
  t.equal((await fetch(link)).status, 200, 'no operator looked at it yet')

  t.match(await send(service, Buffer.from('clean')), { code: 200, status: 'ok' })
  t.match(await send(service, infected), { code: 451, status: 'error-blocked' })
  t.match(await scanning(), {
    scanner: `clamd ${clamd.path}`,
    outcomes: { clean: 1, found: 1, failed: 0 },
    failing: undefined,
  })
  t.equal((await fetch(link)).status, 451, 'the earlier copy')
  const [act] = (await ctl('acts', '--count', '1')).answer
  t.match(act, { by: 'scanner', kind: 'block', reason: `clamd ${clamd.path} found ${eicarName}` })
  t.match(await send(service, infected), { code: 451 })
  t.equal((await scanning()).outcomes.found, 1, 'the block is asked first')

  t.equal((await ctl('undo', act.id)).code, 0)
  t.match(await send(service, infected), { code: 200 }, 'an operator knows better')
  t.match((await scanning()).outcomes, { found: 1, lifted: 1 })
  t.equal((await fetch(link)).status, 200)
})

t.test('an import leaves out infected files, and those without a verdict', async (t) => {
  const clamd = await startClamd(t)
  const { ctl } = await start(t, { HOLDFAST_SCANNER: `clamd:127.0.0.1:${clamd.port}` })
  const source = join(dataDir(t), 'photos')
  mkdirSync(source)
  writeFileSync(join(source, 'good.txt'), 'good')
  writeFileSync(join(source, 'bad.txt'), eicar)
  const first = (await ctl('import', source)).answer
  t.match(first, { files: 1, leftOut: [{ path: join(source, 'bad.txt'), why: /the scanner found/ }] })
  await clamd.stop()
  writeFileSync(join(source, 'later.txt'), 'later')
  const second = await ctl('import', source, '--account', first.account)
  t.match(second.answer, { files: 0, present: 1, leftOutCount: 2 })
  t.match(second.answer.leftOut[1], { why: /no verdict: repeat the import/ })
})

t.test('without a verdict nothing is stored, until the scanner is back', async (t) => {
  const clamd = await startClamd(t)
  const { service, scanning } = await start(t, {
    HOLDFAST_SCANNER: `clamd:${clamd.path}`,
    HOLDFAST_SCAN_SECONDS: '1',
  })
  t.match(await send(service, Buffer.from('first')), { code: 200 })
  clamd.freeze()
  const beganMs = performance.now()
  const late = await send(service, Buffer.from('second'))
  t.match(late, { code: 503, status: 'error-unavailable', retryAfter: /^\d+$/ })
  t.ok(performance.now() - beganMs < 5_000, 'the deadline holds')
  t.match(await scanning(), { outcomes: { failed: 1 }, failing: 'no verdict within 1 s' })
  t.match(await send(service, Buffer.from('first')), { code: 200 }, 'what is known is clean')
  clamd.goOn()
  t.match(await send(service, Buffer.from('second')), { code: 200 })
  await clamd.stop()
  t.match(await send(service, Buffer.from('third')), { code: 503 })
  t.match((await scanning()).failing, /ENOENT|ECONNREFUSED/)
  await clamd.start()
  t.match(await send(service, Buffer.from('third')), { code: 200 })
  t.match(await scanning(), { outcomes: { clean: 3, failed: 2, known: 1 }, failing: undefined })
  const figures = await (await fetch(`${service.addresses.admin}/metrics`)).text()
  t.match(figures, /^holdfast_scans_total\{outcome="failed"\} 2$/m)
  t.match(figures, /^holdfast_scanner_failing 0$/m)
  t.match(figures, /^holdfast_scan_seconds_count 3$/m)
})

t.test('an operator may accept files without a verdict', async (t) => {
  const { service, scanning } = await start(t, {
    HOLDFAST_SCANNER: 'clamd:/nowhere/clamd.ctl',
    HOLDFAST_SCAN_FAILURE: 'accept',
  })
  t.match(await send(service, Buffer.from('unseen')), { code: 200 })
  t.match(await scanning(), { outcomes: { failed: 1 }, failing: /ENOENT/ })
})

t.test('content above the size is stored unscanned; clamd says when its own bound is lower', async (t) => {
  const clamd = await startClamd(t)
  const { service, scanning } = await start(t, {
    HOLDFAST_SCANNER: `clamd:${clamd.path}`,
    HOLDFAST_SCAN_MAX_BYTES: '4MiB',
  })
  t.match(await send(service, randomBytes(4 * 1024 * 1024 + 1)), { code: 200 })
  t.match(await scanning(), { outcomes: { larger: 1, clean: 0, failed: 0 } })
  t.match(await send(service, randomBytes(3 * 1024 * 1024)), { code: 503 })
  t.match((await scanning()).failing, /StreamMaxLength/)
})

t.test('a program scans: its exit code is the verdict, and equal content is scanned once', async (t) => {
  const program = programIn(t, 'sleep 0.3; if grep -q EVIL; then echo "Evil: the first line"; exit 1; fi')
  const { service, ctl } = await start(t, { HOLDFAST_SCANNER: `program:${program.path}` })
  const same = randomBytes(300_000)
  const answers = await Promise.all([1, 2, 3].map(() => send(service, same)))
  t.strictSame(
    answers.map(({ code }) => code),
    [200, 200, 200],
  )
  t.match(await send(service, same), { code: 200 })
  t.equal(program.runs(), 1)
  t.match(await send(service, Buffer.concat([same, Buffer.from('EVIL')])), { code: 451 })
  t.match((await ctl('acts', '--count', '1')).answer, [{ reason: /found Evil: the first line$/ }])
})

t.test('a program that fails, ends early or hangs gives no verdict, and no process is left', async (t) => {
  for (const [lines, why] of [
    ['echo no database >&2; exit 2', /ended with 2: no database/],
    ['kill -9 $$', /ended by SIGKILL/],
    ['sleep 77777 & sleep 77777', /no verdict within/],
  ] as const) {
    const program = programIn(t, lines)
    const { service, scanning } = await start(t, {
      HOLDFAST_SCANNER: `program:${program.path}`,
      HOLDFAST_SCAN_SECONDS: '1.5',
    })
    t.match(await send(service, randomBytes(500_000)), { code: 503 }, lines)
    t.match((await scanning()).failing, why)
  }
  await delay(200)
  t.notMatch(runningCommands(), /sleep 77777/)
  const { service } = await start(t, { HOLDFAST_SCANNER: `program:${programIn(t, 'exit 0').path}` })
  t.match(await send(service, randomBytes(500_000)), { code: 200 }, 'it may decide by less than all')
})

t.test('a program does not get the secrets of the service', async (t) => {
  const program = programIn(t, 'env | grep -c HOLDFAST && exit 1; exit 0')
  process.env.HOLDFAST_TEST_SECRET = 'secret'
  t.teardown(() => delete process.env.HOLDFAST_TEST_SECRET)
  const { service } = await start(t, { HOLDFAST_SCANNER: `program:${program.path}` })
  t.match(await send(service, Buffer.from('x')), { code: 200 })
})
