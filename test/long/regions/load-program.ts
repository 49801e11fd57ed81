/**
 * Users beside a region: `load-program.ts <JSON of Places>` makes guests, prints a line, and lets
 * each of them make folders, upload and download until its standard input ends. Then it prints what
 * became of their requests. In faults many fail; each user continues.
 */

/**
 * Which requests are sent again, with the same key: none, those without an answer, or also those
 * that were answered with `error-unavailable`.
 */
export type Repeats = 'none' | 'cut' | 'refused'

export interface Places {
  api: string
  upload: string
  repeats: Repeats
}

/** Numbers of them. */
export interface Requests {
  done: number
  failed: number
  /** Sent again; each of them is also done or failed. */
  repeated: number
  /** What the failed ones met, with their number. */
  faults: Record<string, number>
}

/** Beside each region: on two cores more of them slow down everything. */
const guests = 12
const pauseMs = 3_000
const answerMs = 20_000
const repetitionsMax = { none: 0, cut: 2, refused: 20 }
const retryMs = 500
const [given = ''] = process.argv.slice(2)
const places = JSON.parse(given) as Places
const requests: Requests = { done: 0, failed: 0, repeated: 0, faults: {} }
let ended = false
process.stdin.on('end', () => {
  ended = true
})
process.stdin.resume()

interface Guest {
  token: string
  folder: string
}

interface UploadAnswer {
  guestToken: string
  parentFolder: string
  link: string
}

const all = await Promise.all(Array.from({ length: guests }, make))
console.log('started')
await Promise.all(all.map(live))
console.log(JSON.stringify(requests))

async function make(): Promise<Guest> {
  for (;;) {
    const made = await counted((key) => upload(key))
    if (made !== undefined) return { token: made.guestToken, folder: made.parentFolder }
    await pause()
  }
}

async function live(guest: Guest): Promise<void> {
  while (!ended) {
    await counted((key) => folder(key, guest))
    const file = await counted((key) => upload(key, guest))
    if (file !== undefined) await counted(() => download(file.link))
    await pause()
  }
}

/** @returns undefined: it failed */
async function counted<T>(ask: (key: string) => Promise<T>): Promise<T | undefined> {
  const key = crypto.randomUUID()
  for (let repetitions = 0; ; repetitions++)
    try {
      const answer = await ask(key)
      requests.done++
      return answer
    } catch (error) {
      if (isRepeated(error) && repetitions < repetitionsMax[places.repeats]) {
        requests.repeated++
        if (places.repeats === 'refused') await pause(retryMs)
        continue
      }
      requests.failed++
      const { message, cause } = error as Error
      const fault = cause instanceof Error ? `${message}: ${cause.message}` : message
      requests.faults[fault] = (requests.faults[fault] ?? 0) + 1
      return undefined
    }
}

/** No answer came: `fetch` says so by a TypeError. */
function isRepeated(error: unknown): boolean {
  if (error instanceof TypeError) return true
  return places.repeats === 'refused' && (error as Error).message === 'error-unavailable'
}

async function upload(key: string, guest?: Guest): Promise<UploadAnswer> {
  const form = new FormData()
  if (guest !== undefined) form.append('folderId', guest.folder)
  // A repeated request has the same bytes.
  form.append('file', new Blob([key.repeat(28)]), 'a.txt')
  return (await asked(`${places.upload}/uploadfile`, {
    method: 'POST',
    body: form,
    key,
    guest,
  })) as UploadAnswer
}

async function folder(key: string, guest: Guest): Promise<void> {
  const body = JSON.stringify({ parentFolderId: guest.folder })
  const headers = { 'content-type': 'application/json' }
  await asked(`${places.api}/contents/createFolder`, { method: 'POST', body, headers, key, guest })
}

async function download(link: string): Promise<void> {
  const answer = await fetch(link, { signal: AbortSignal.timeout(answerMs) })
  await answer.arrayBuffer()
  if (!answer.ok) throw new Error(answer.status === 503 ? 'error-unavailable' : `${answer.status}`)
}

type Asked = Omit<RequestInit, 'headers'> & { headers?: object; key: string; guest: Guest | undefined }

async function asked(url: string, { guest, key, headers, ...init }: Asked): Promise<unknown> {
  const authorization = guest === undefined ? {} : { authorization: `Bearer ${guest.token}` }
  const signal = AbortSignal.timeout(answerMs)
  const answer = await fetch(url, {
    ...init,
    headers: { 'idempotency-key': key, ...headers, ...authorization },
    signal,
  })
  const { status, data } = (await answer.json()) as { status: string; data: unknown }
  if (status !== 'ok') throw new Error(status)
  return data
}

function pause(ms = pauseMs): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
