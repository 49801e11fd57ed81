/** The steps of one client, and their results. */
import { failedCalls } from './table.ts'
import type { Call } from './tls-proxy.ts'
import type { Person, World } from './world.ts'

export interface Client {
  name: string
  /** Its reported or pinned version. */
  version(person: Person): Promise<string>
  play(scene: Scene): Promise<void>
}

export interface Scene {
  world: World
  person: Person
  /** Larger files and folders, as in the long form. */
  full: boolean
  /** Does one thing as a user would, and checks the result by throwing. */
  step(what: string, act: () => Promise<void>): Promise<void>
  /**
   * Does something that this client cannot do against any service, or against one that keeps the
   * contract.
   * @param own the client's mistake, and the message of its failure.
   * @param act must throw what `shows` matches: a failure here reports a client that was fixed, or
   *   another fault.
   */
  clientsOwn(what: string, own: ClientsOwn, act: () => Promise<unknown>): Promise<void>
}

export interface ClientsOwn {
  why: string
  shows: RegExp
}

export interface Row {
  client: string
  version: string
  what: string
  calls: Call[]
  result: 'ok' | 'failed' | "client's own"
  /** Why it failed, or the client's mistake. */
  detail: string
  ms: number
}

/** Runs one client as a new user. */
export async function play(
  client: Client,
  { world, full, report }: { world: World; full: boolean; report: (row: Row) => void },
): Promise<void> {
  const person = await world.person(client.name)
  let version = ''
  const act = async (what: string, own: ClientsOwn | undefined, run: () => Promise<unknown>) => {
    const first = person.calls.length
    const started = performance.now()
    const failure = await run().then(
      () => undefined,
      (error: Error) => error,
    )
    const row = {
      client: client.name,
      version,
      what,
      calls: person.calls.slice(first),
      ms: Math.round(performance.now() - started),
    }
    if (own !== undefined && failure !== undefined && own.shows.test(failure.message))
      report({ ...row, result: "client's own", detail: own.why })
    else if (own !== undefined && failure === undefined)
      report({
        ...row,
        result: 'failed',
        detail: `works, though it is listed as the client's own fault: ${own.why}`,
      })
    else
      report({
        ...row,
        result: failure === undefined ? 'ok' : 'failed',
        detail: failure === undefined ? '' : [failure.stack, ...failedCalls(row.calls)].join('\n'),
      })
  }
  const scene: Scene = {
    world,
    person,
    full,
    step: (what, run) => act(what, undefined, run),
    clientsOwn: act,
  }
  await act('starts', undefined, async () => {
    version = await client.version(person)
  })
  try {
    await client.play(scene)
  } catch (error) {
    await act('goes on', undefined, () => Promise.reject(error))
  } finally {
    await person.close()
  }
}

/** The installed version of a Python client. */
export function pinned(name: string): Client['version'] {
  return async (person) => {
    const ask = `from importlib.metadata import version; print(version("${name}"))`
    return (await person.python(name, 'python', ['-c', ask])).trim()
  }
}
