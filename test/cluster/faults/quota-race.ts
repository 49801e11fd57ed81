/**
 * Many concurrent uploads, through the hosts of all regions, into an account with room for a few.
 */
import { Answer } from '../../acceptance/answer.ts'
import { send } from '../../acceptance/http.ts'
import { multipart } from '../../acceptance/multipart.ts'
import { sleep } from '../../acceptance/world.ts'
import type { ClusterRegion } from '../local-cluster.ts'
import { arrive, fileCountOf, type Person, setAccount } from './people.ts'

const retryForMs = 60_000

/** @returns how many got which answer, and how many files the account has then, by region. */
export async function raceForPlaces(
  regions: readonly ClusterRegion[],
  { uploads, places }: { uploads: number; places: number },
): Promise<{ reported: Record<string, number>; kept: number[] }> {
  const [home] = regions as [ClusterRegion]
  const person = await arrive(home)
  await setAccount(home, { id: person.id, settings: { limits: { contents: places } } })
  const reported: Record<string, number> = {}
  await Promise.all(
    Array.from({ length: uploads }, async (_, at) => {
      const status = await statusOf(regions[at % regions.length] as ClusterRegion, { person, at })
      reported[status] = (reported[status] ?? 0) + 1
    }),
  )
  return { reported, kept: await Promise.all(regions.map((region) => fileCountOf(region, person))) }
}

/** A request without an answer, or refused for the moment, is repeated with its key. */
async function statusOf(
  { upload }: ClusterRegion,
  { person, at }: { person: Person; at: number },
): Promise<string> {
  const form = multipart([
    { name: 'folderId', value: person.root },
    { name: 'file', filename: `racer ${at}.txt`, content: `racer ${at}` },
  ])
  const until = performance.now() + retryForMs
  for (;;) {
    const received = await send(`${upload}/uploadfile`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${person.token}`,
        'content-type': form.contentType,
        'idempotency-key': `racer-${at}-${person.id}`,
      },
      body: form.body,
    }).catch(() => undefined)
    const open = received === undefined || received.code >= 500 || received.code === 429
    if (!open) return new Answer('upload', received).envelope().status
    if (performance.now() > until) return `${received?.code ?? 'no answer'}`
    await sleep(200)
  }
}
