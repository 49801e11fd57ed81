/**
 * A user beside a region: `user.ts <JSON of Wish>` tries until it succeeds and prints the answer
 * and how long it took.
 */
export interface UserRequest {
  /** `upload`: `url` is of the upload host. `folder`: of the API. `download`: the link. */
  do: 'upload' | 'folder' | 'download'
  url: string
  token: string
  folder: string
  patienceMs: number
}

export interface UserAnswer {
  ms: number
  data: Record<string, string>
}

const retryMs = 200
const answerMs = 20_000
const [given = ''] = process.argv.slice(2)
const wish = JSON.parse(given) as UserRequest
const startedMs = performance.now()
for (;;) {
  try {
    const data = await granted()
    const reported: UserAnswer = { ms: Math.round(performance.now() - startedMs), data }
    console.log(JSON.stringify(reported))
    process.exit()
  } catch (error) {
    if (performance.now() - startedMs > wish.patienceMs) throw error
    await new Promise((resolve) => setTimeout(resolve, retryMs))
  }
}

async function granted(): Promise<Record<string, string>> {
  const { do: what, url, token, folder } = wish
  const signal = AbortSignal.timeout(answerMs)
  if (what === 'download') {
    const answer = await fetch(url, { signal })
    if (!answer.ok) throw new Error(`${url} answered ${answer.status}`)
    return { text: await answer.text() }
  }
  const form = new FormData()
  form.append('file', new Blob(['kept in two regions']), 'a.txt')
  const answer =
    what === 'upload'
      ? await fetch(`${url}/uploadfile`, { method: 'POST', body: form, signal })
      : await fetch(`${url}/contents/createFolder`, {
          method: 'POST',
          headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
          body: JSON.stringify({ parentFolderId: folder }),
          signal,
        })
  const { status, data } = (await answer.json()) as { status: string; data: Record<string, string> }
  if (status !== 'ok') throw new Error(`${what} was answered with ${status}`)
  return data
}
