/**
 * Users beside a region: `load.ts <JSON of Places>` makes guests, prints a line, and lets each of
 * them make folders, upload and download until its standard input ends. Faults are their daily
 * life: what fails is tried again.
 */
export interface Places {
  api: string
  upload: string
}

const guests = 40
const pauseMs = 3_000
const answerMs = 20_000
const [given = ''] = process.argv.slice(2)
const places = JSON.parse(given) as Places
let ended = false
process.stdin.on('end', () => {
  ended = true
})
process.stdin.resume()

interface Guest {
  token: string
  folder: string
}

interface Uploaded {
  guestToken: string
  parentFolder: string
  link: string
}

const all = await Promise.all(Array.from({ length: guests }, make))
console.log('started')
await Promise.all(all.map(live))

async function make(): Promise<Guest> {
  for (;;) {
    const made = await upload().catch(() => undefined)
    if (made !== undefined) return { token: made.guestToken, folder: made.parentFolder }
    await pause()
  }
}

async function live(guest: Guest): Promise<void> {
  while (!ended) {
    await folder(guest).catch(() => undefined)
    const file = await upload(guest).catch(() => undefined)
    if (file !== undefined) await download(file.link).catch(() => undefined)
    await pause()
  }
}

async function upload(guest?: Guest): Promise<Uploaded> {
  const form = new FormData()
  if (guest !== undefined) form.append('folderId', guest.folder)
  form.append('file', new Blob([crypto.getRandomValues(new Uint8Array(1_000))]), 'a.bin')
  return (await asked(`${places.upload}/uploadfile`, { method: 'POST', body: form, guest })) as Uploaded
}

async function folder(guest: Guest): Promise<void> {
  const body = JSON.stringify({ parentFolderId: guest.folder })
  const headers = { 'content-type': 'application/json' }
  await asked(`${places.api}/contents/createFolder`, { method: 'POST', body, headers, guest })
}

async function download(link: string): Promise<void> {
  const answer = await fetch(link, { signal: AbortSignal.timeout(answerMs) })
  await answer.arrayBuffer()
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
