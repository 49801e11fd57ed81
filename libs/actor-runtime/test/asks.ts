/** What several tests ask of an account. */
import { settled, type World } from './world.ts'

export const idleMs = 60_000

export function expire(world: World, name: string, due: number) {
  const attribute = { $case: 'expiry' as const, value: { expiry: due, deleteAfterExpiry: false } }
  return world.ask({ $case: 'updateContent', value: { contentId: name, attribute } })
}

/** Whether a promise is still open when everything that can happen has happened. */
export async function open(promise: Promise<unknown>): Promise<boolean> {
  let done = false
  const note = () => {
    done = true
  }
  promise.then(note, note)
  await settled()
  return !done
}

export function read(world: World, password: string) {
  const page = {
    page: 1,
    pageSize: 1,
    sortField: 0 as const,
    ascending: false,
    contentFilter: '',
    maxDepth: 1,
  }
  return world.ask({
    $case: 'readContent',
    value: { contentName: undefined, columns: undefined, contentId: '', password, ...page },
  })
}
