/**
 * The contract suites are only as good as what they detect: each of these stores has one fault, and
 * the suite must find it.
 */
import t from 'tap'
import type { JournalOwnership, JournalStore, LookupChange, LookupStore } from '../src/index.ts'
import {
  journalStoreContract,
  lookupStoreContract,
  MemoryJournalStore,
  MemoryLookupStore,
  MemoryMedium,
  type OpenedJournals,
} from '../src/testing.ts'

type PlantedFaults<T> = { [fault: string]: (sound: T) => Partial<T> }

const brokenJournals: PlantedFaults<JournalStore> = {
  'append ignores the epoch': (sound) => ({
    append: async (ownership, row) => {
      const now = await sound.head(ownership.account)
      const renewed = { ...ownership, epoch: now.epoch }
      await sound.append(renewed, row)
      Object.assign(ownership, { head: renewed.head, chain: renewed.chain })
    },
  }),
  'append ignores the head': (sound) => ({
    append: async (ownership, row) => {
      const { head, chain } = await sound.head(ownership.account)
      Object.assign(ownership, { head, chain })
      await sound.append(ownership, row)
    },
  }),
  'append leaves the ownership where it was': (sound) => ({
    append: (ownership, row) => sound.append({ ...ownership }, row),
  }),
  'a refused append moves the ownership': (sound) => ({
    append: (ownership, row) =>
      sound.append(ownership, row).catch((error) => Promise.reject(ownership.head++ && error)),
  }),
  'append acknowledges what it did not write': (sound) => ({
    append: async (ownership, row) => {
      if (row.length === 4) ownership.head++
      else await sound.append(ownership, row)
    },
  }),
  'append keeps the bytes it was given': (sound) => ({
    append: (ownership, row) =>
      new Promise((resolve) => setImmediate(() => resolve(sound.append(ownership, row)))),
  }),
  'append takes rows of any size': (sound) => ({
    append: (ownership, row) => sound.append(ownership, row.subarray(0, 1024 * 1024)),
  }),
  'acquire does not raise the epoch of the same owner': (sound) => {
    const ownerships = new Map<string, JournalOwnership>()
    return {
      acquire: async (account, options) => {
        const key = `${account} ${options.owner}`
        const ownership = ownerships.get(key) ?? (await sound.acquire(account, options))
        ownerships.set(key, ownership)
        return ownership
      },
    }
  },
  'acquire reads the head before it raises the epoch': (sound) => ({
    acquire: async (account, options) => {
      const { head, chain } = await sound.head(account)
      return { ...(await sound.acquire(account, options)), head, chain }
    },
  }),
  'acquire forgets who held it': (sound) => ({
    acquire: async (account, options) => ({
      ...(await sound.acquire(account, options)),
      previousOwner: undefined,
    }),
  }),
  'asking for an account makes it': (sound) => ({
    acquire: (account, { unwritten: _, ...options }) => sound.acquire(account, options),
  }),
  'a first row gets in although others are there': (sound) => ({
    append: async (ownership, row) => {
      if (ownership.epoch === 0) Object.assign(ownership, await sound.head(ownership.account))
      await sound.append(ownership, row)
    },
  }),
  'a first row leaves the ownership in epoch 0': (sound) => ({
    append: async (ownership, row) => {
      const moved = { ...ownership }
      await sound.append(moved, row)
      Object.assign(ownership, { head: moved.head, chain: moved.chain })
    },
  }),
  'a first row names no owner': (sound) => ({
    append: async (ownership, row) => {
      await sound.append(ownership, row)
      if (ownership.head === 1) await sound.release({ ...ownership })
    },
  }),
  'an account is made to be released': (sound) => ({
    release: async (ownership) => {
      if (ownership.epoch === 0) await sound.acquire(ownership.account, ownership)
      else await sound.release(ownership)
    },
  }),
  'no host is asked to release': (sound) => ({
    acquire: (account, { askRelease: _, ...options }) => sound.acquire(account, options),
  }),
  'release keeps the owner': () => ({ release: async () => {} }),
  'a released ownership can still write': (sound) => ({
    release: (ownership) => sound.release({ ...ownership }),
  }),
  'setRoot ignores the epoch': (sound) => ({
    setRoot: async (ownership, options) => {
      const renewed = { ...ownership, ...(await sound.head(ownership.account)) }
      await sound.setRoot(renewed, options)
    },
  }),
  'setRoot is forgotten': () => ({
    setRoot: async (ownership, { root }) => {
      ownership.root = root
    },
  }),
  'rows ignores where to begin': (sound) => ({ rows: (ownership) => sound.rows(ownership, 0) }),
  'rows jumps over what is missing': (sound) => ({
    rows: async function* (ownership, after) {
      try {
        yield* sound.rows(ownership, after)
      } catch {}
    },
  }),
  'rows follows the head': (sound) => ({
    rows: async function* (ownership, after) {
      yield* sound.rows(ownership, after)
    },
  }),
  'rows comes in the order of texts': (sound) => ({
    rows: async function* (ownership, after) {
      const all = await Array.fromAsync(sound.rows(ownership, after))
      yield* all.sort((one, two) => String(one.seq).localeCompare(String(two.seq)))
    },
  }),
  'rows are not held against the chain of the ownership': (sound) => ({
    rows: async function* (ownership, after) {
      const { chain } = await sound.head(ownership.account)
      yield* sound.rows({ ...ownership, chain }, after)
    },
  }),
  'trim takes one row too many': (sound) => ({
    trim: async (ownership, through) => {
      await sound.trim(ownership, through)
      ;(sound as MemoryJournalStore).damage(ownership.account, through + 1, () => undefined)
    },
  }),
  'trim does nothing': () => ({ trim: async () => {} }),
  'pages are shared by accounts': (sound) => ({
    putPage: (_, name, bytes) => sound.putPage('all', name, bytes),
    page: (_, name) => sound.page('all', name),
    pageNames: () => sound.pageNames('all'),
    deletePages: (_, names) => sound.deletePages({ account: 'all' } as JournalOwnership, names),
  }),
  'deletePages deletes the first alone': (sound) => ({
    deletePages: (ownership, names) => sound.deletePages(ownership, names.slice(1)),
  }),
  'pageNames has no order': (sound) => ({
    pageNames: async function* (account) {
      yield* (await Array.fromAsync(sound.pageNames(account))).reverse()
    },
  }),
  'the restart loses the last row': (sound) => ({
    acquire: async (account, options) => {
      const ownership = await sound.acquire(account, options)
      return options.owner === 'host-2' ? { ...ownership, head: Math.max(0, ownership.head - 1) } : ownership
    },
  }),
}

const brokenLookups: PlantedFaults<LookupStore> = {
  'the last claim wins': (sound) => ({
    claim: async (key, value) => {
      await sound.write([{ put: key, value }])
      return value
    },
  }),
  'a claim looks and puts in two steps': (sound) => ({
    claim: async (key, value) => {
      const there = await sound.get(key)
      if (there === undefined) await sound.write([{ put: key, value: Buffer.from(value) }])
      return there ?? Buffer.from(value)
    },
  }),
  'a claim answers its own value': (sound) => ({
    claim: async (key, value) => {
      await sound.claim(key, value)
      return value
    },
  }),
  'numbers are taken twice': (sound) => ({ take: (counter) => sound.take(counter, 1) }),
  'a number is not checked': (sound) => ({
    take: async (counter, count) => (count > 0 ? sound.take(counter, count) : 0),
  }),
  'counters share their numbers': (sound) => ({ take: (_, count) => sound.take('all', count) }),
  'deletes are ignored': (sound) => ({
    write: (changes) => sound.write(changes.filter((change: LookupChange) => 'put' in change)),
  }),
  'the first change of a key wins': (sound) => ({ write: (changes) => sound.write([...changes].reverse()) }),
  'only the first change is made': (sound) => ({ write: (changes) => sound.write(changes.slice(0, 1)) }),
  'write times are ignored': (sound) => ({ write: (changes) => sound.write(changes) }),
  'write times count for references alone': (sound) => ({
    write: async (changes, writeTime) => {
      const isReference = (change: LookupChange) =>
        ('put' in change ? change.put : change.delete).startsWith('ref/')
      await sound.write(changes.filter(isReference), writeTime)
      await sound.write(changes.filter((change) => !isReference(change)))
    },
  }),
  'deletes have no write time': (sound) => ({
    write: async (changes, writeTime) => {
      for (const change of changes) await sound.write([change], 'put' in change ? writeTime : undefined)
    },
  }),
  'what was deleted is forgotten': (sound) => ({
    write: async (changes, writeTime) => {
      for (const change of changes) {
        const isThere = 'put' in change && (await sound.get(change.put)) !== undefined
        await sound.write([change], 'put' in change && !isThere ? undefined : writeTime)
      }
    },
  }),
  'bounds are checked one by one': (sound) => ({
    write: async (changes) => {
      for (const change of changes) await sound.write([change])
    },
  }),
  'a scan begins with the row it should begin behind': (sound) => ({
    scan: (prefix, { after = '', limit } = {}) =>
      sound.scan(prefix, { after: after.slice(0, -1), ...(limit === undefined ? {} : { limit }) }),
  }),
  'a scan has no end': (sound) => ({ scan: (prefix, { after = '' } = {}) => sound.scan(prefix, { after }) }),
  'a scan stops at the prefix itself': (sound) => ({
    scan: async function* (prefix, options) {
      for await (const row of sound.scan(prefix, options)) if (row.key !== prefix) yield row
    },
  }),
  'a scan has no order': (sound) => ({
    scan: async function* (prefix, options) {
      yield* (await Array.fromAsync(sound.scan(prefix, options))).reverse()
    },
  }),
  'first rows come in the order of keys': (sound) => ({
    firstOf: (prefixes) => sound.firstOf([...prefixes].sort()),
  }),
  'first rows leave out what is not there': (sound) => ({
    firstOf: async (prefixes) => (await sound.firstOf(prefixes)).filter((row) => row !== undefined),
  }),
  'get finds the nearest key': (sound) => ({
    get: async (key) => {
      for await (const row of sound.scan(key)) return row.value
      return undefined
    },
  }),
}

t.test('the journal suite finds every planted fault', async (t) => {
  const shared = () => new MemoryJournalStore(new MemoryMedium({ exclusive: false }))
  const passed = await failures<JournalStore>(shared, () => ({}), runJournals)
  t.same(passed, [], 'and passes the sound store')
  for (const [fault, broken] of Object.entries(brokenJournals)) {
    const failed = await failures<JournalStore>(shared, broken, runJournals)
    t.ok(failed.length > 0, `${fault}: ${failed.length} tests fail`)
  }
})

t.test('the lookup suite finds every planted fault', async (t) => {
  t.same(
    await failures<LookupStore>(
      () => new MemoryLookupStore(),
      () => ({}),
      runLookups,
    ),
    [],
  )
  for (const [fault, broken] of Object.entries(brokenLookups)) {
    const failed = await failures<LookupStore>(() => new MemoryLookupStore(), broken, runLookups)
    t.ok(failed.length > 0, `${fault}: ${failed.length} tests fail`)
  }
})

type Case = { name: string; body: (t: undefined) => Promise<void> }

function runJournals(open: () => JournalStore): Case[] {
  const cases: Case[] = []
  const opened = async (): Promise<OpenedJournals> => {
    const journals = open()
    return { journals, reopen: async () => journals }
  }
  journalStoreContract<undefined>({ test: (name, body) => cases.push({ name, body }), open: opened })
  return cases
}

function runLookups(open: () => LookupStore): Case[] {
  const cases: Case[] = []
  const opened = async () => ({ lookups: open() })
  lookupStoreContract<undefined>({ test: (name, body) => cases.push({ name, body }), open: opened })
  return cases
}

/** Names of the suite's tests that fail on the store with this fault. */
async function failures<T extends object>(
  make: () => T,
  broken: (sound: T) => Partial<T>,
  suite: (open: () => T) => Case[],
): Promise<string[]> {
  const failed: string[] = []
  const cases = suite(() => {
    const sound = make()
    return overlaid(sound, broken(sound))
  })
  for (const { name, body } of cases) await body(undefined).catch(() => failed.push(name))
  return failed
}

function overlaid<T extends object>(sound: T, faults: Partial<T>): T {
  return new Proxy(sound, {
    get: (_, name) => {
      const found = Reflect.get(name in faults ? faults : sound, name)
      return typeof found === 'function' && !(name in faults) ? found.bind(sound) : found
    },
  })
}
