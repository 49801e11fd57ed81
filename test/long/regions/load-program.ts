/**
 * Users beside a region: `load-program.ts <JSON of Places>` makes guests, prints a line, and lets
 * each of them make folders, upload and download until its standard input ends. Then it prints what
 * became of their requests. In faults many fail; each user goes on.
 */
export interface Places {
  api: string
  upload: string
}

/** Numbers of them. */
export interface Requests {
  done: number
  failed: number
  /** What the failed ones met, with their number. */
  faults: Record<string, number>
}

const guests = 40
const pauseMs = 3_000
const answerMs = 20_000
const [given = ''] = process.argv.slice(2)
const places = JSON.parse(given) as Places
const requests: Requests = { done: 0, failed: 0, faults: {} }
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
    const made = await counted(upload())
    if (made !== undefined) return { token: made.guestToken, folder: made.parentFolder }
    await pause()
  }
}

async function live(guest: Guest): Promise<void> {
  while (!ended) {
    await counted(folder(guest))
    const file = await counted(upload(guest))
    if (file !== undefined) await counted(download(file.link))
    await pause()
  }
}

/** @returns undefined: it failed */
async function counted<T>(request: Promise<T>): Promise<T | undefined> {
  try {
    const answer = await request
    requests.done++
    return answer
  } catch (error) {
    requests.failed++
    const { message, cause } = error as Error
    const fault = cause instanceof Error ? `${message}: ${cause.message}` : message
    requests.faults[fault] = (requests.faults[fault] ?? 0) + 1
    return undefined
  }
}

async function upload(guest?: Guest): Promise<UploadAnswer> {
  const form = new FormData()
  if (guest !== undefined) form.append('folderId', guest.folder)
  form.append('file', new Blob([crypto.getRandomValues(new Uint8Array(1_000))]), 'a.bin')
  return (await asked(`${places.upload}/uploadfile`, { method: 'POST', body: form, guest })) as UploadAnswer
}

async function folder(guest: Guest): Promise<void> {
  const body = JSON.stringify({ parentFolderId: guest.folder })
  const headers = { 'content-type': 'application/json' }
  await asked(`${places.api}/contents/createFolder`, { method: 'POST', body, headers, guest })
}

async function download(link: string): Promise<void> {
  const answer = await fetch(link, { signal: AbortSignal.timeout(answerMs) })
  await answer.arrayBuffer()
  if (!answer.ok) throw new Error(`${answer.status}`)
}

async function asked(
  url: string,
  { guest, headers, ...init }: Omit<RequestInit, 'headers'> & { headers?: object; guest?: Guest | undefined },
): Promise<unknown> {
  const authorization = guest === undefined ? {} : { authorization: `Bearer ${guest.token}` }
  const signal = AbortSignal.timeout(answerMs)
  const answer = await fetch(url, { ...init, headers: { ...headers, ...authorization }, signal })
  const { status, data } = (await answer.json()) as { status: string; data: unknown }
  if (status !== 'ok') throw new Error(status)
  return data
}

function pause(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, pauseMs))
}
