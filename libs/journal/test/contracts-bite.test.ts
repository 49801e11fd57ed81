/**
 * The contract suites are only as good as what they detect: each of these stores has one fault, and
 * the suite must find it.
 */
import t from 'tap'
import type { JournalHold, JournalStore, LookupChange, LookupStore } from '../src/index.ts'
import {
  journalStoreContract,
  lookupStoreContract,
  MemoryJournalStore,
  MemoryLookupStore,
  MemoryMedium,
  type OpenedJournals,
} from '../src/testing.ts'

type Broken<T> = { [fault: string]: (sound: T) => Partial<T> }

const brokenJournals: Broken<JournalStore> = {
  'append ignores the epoch': (sound) => ({
    append: async (hold, row) => {
      const now = await sound.head(hold.account)
      const renewed = { ...hold, epoch: now.epoch }
      await sound.append(renewed, row)
      Object.assign(hold, { head: renewed.head, chain: renewed.chain })
    },
  }),
  'append ignores the head': (sound) => ({
    append: async (hold, row) => {
      const { head, chain } = await sound.head(hold.account)
      Object.assign(hold, { head, chain })
      await sound.append(hold, row)
    },
  }),
  'append leaves the hold where it was': (sound) => ({
    append: (hold, row) => sound.append({ ...hold }, row),
  }),
  'a refused append moves the hold': (sound) => ({
    append: (hold, row) => sound.append(hold, row).catch((error) => Promise.reject(hold.head++ && error)),
  }),
  'append acknowledges what it did not write': (sound) => ({
    append: async (hold, row) => {
      if (row.length === 4) hold.head++
      else await sound.append(hold, row)
    },
  }),
  'append keeps the bytes it was given': (sound) => ({
    append: (hold, row) => new Promise((resolve) => setImmediate(() => resolve(sound.append(hold, row)))),
  }),
  'append takes rows of any size': (sound) => ({
    append: (hold, row) => sound.append(hold, row.subarray(0, 1024 * 1024)),
  }),
  'acquire does not raise the epoch of the same owner': (sound) => {
    const holds = new Map<string, JournalHold>()
    return {
      acquire: async (account, options) => {
        const key = `${account} ${options.owner}`
        const hold = holds.get(key) ?? (await sound.acquire(account, options))
        holds.set(key, hold)
        return hold
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
  'a first row gets in whatever is there': (sound) => ({
    append: async (hold, row) => {
      if (hold.epoch === 0) Object.assign(hold, await sound.head(hold.account))
      await sound.append(hold, row)
    },
  }),
  'a first row leaves the hold in epoch 0': (sound) => ({
    append: async (hold, row) => {
      const moved = { ...hold }
      await sound.append(moved, row)
      Object.assign(hold, { head: moved.head, chain: moved.chain })
    },
  }),
  'a first row names no owner': (sound) => ({
    append: async (hold, row) => {
      await sound.append(hold, row)
      if (hold.head === 1) await sound.release({ ...hold })
    },
  }),
  'an account is made to be released': (sound) => ({
    release: async (hold) => {
      if (hold.epoch === 0) await sound.acquire(hold.account, hold)
      else await sound.release(hold)
    },
  }),
  'nobody is asked to release': (sound) => ({
    acquire: (account, { askRelease: _, ...options }) => sound.acquire(account, options),
  }),
  'release keeps the owner': () => ({ release: async () => {} }),
  'a released hold goes on': (sound) => ({
    release: (hold) => sound.release({ ...hold }),
  }),
  'setRoot ignores the epoch': (sound) => ({
    setRoot: async (hold, options) => {
      const renewed = { ...hold, ...(await sound.head(hold.account)) }
      await sound.setRoot(renewed, options)
    },
  }),
  'setRoot is forgotten': () => ({
    setRoot: async (hold, { root }) => {
      hold.root = root
    },
  }),
  'rows ignores where to begin': (sound) => ({ rows: (hold) => sound.rows(hold, 0) }),
  'rows jumps over what is missing': (sound) => ({
    rows: async function* (hold, after) {
      try {
        yield* sound.rows(hold, after)
      } catch {}
    },
  }),
  'rows follows the head': (sound) => ({
    rows: async function* (hold, after) {
      yield* sound.rows(hold, after)
    },
  }),
  'rows comes in the order of texts': (sound) => ({
    rows: async function* (hold, after) {
      const all = await Array.fromAsync(sound.rows(hold, after))
      yield* all.sort((one, two) => String(one.seq).localeCompare(String(two.seq)))
    },
  }),
  'rows are not held against the chain of the hold': (sound) => ({
    rows: async function* (hold, after) {
      const { chain } = await sound.head(hold.account)
      yield* sound.rows({ ...hold, chain }, after)
    },
  }),
  'trim takes one row too many': (sound) => ({
    trim: async (hold, through) => {
      await sound.trim(hold, through)
      ;(sound as MemoryJournalStore).damage(hold.account, through + 1, () => undefined)
    },
  }),
  'trim does nothing': () => ({ trim: async () => {} }),
  'pages are shared by accounts': (sound) => ({
    putPage: (_, name, bytes) => sound.putPage('all', name, bytes),
    page: (_, name) => sound.page('all', name),
    pageNames: () => sound.pageNames('all'),
    deletePages: (_, names) => sound.deletePages({ account: 'all' } as JournalHold, names),
  }),
  'deletePages deletes the first alone': (sound) => ({
    deletePages: (hold, names) => sound.deletePages(hold, names.slice(1)),
  }),
  'pageNames has no order': (sound) => ({
    pageNames: async function* (account) {
      yield* (await Array.fromAsync(sound.pageNames(account))).reverse()
    },
  }),
  'the restart loses the last row': (sound) => ({
    acquire: async (account, options) => {
      const hold = await sound.acquire(account, options)
      return options.owner === 'host-2' ? { ...hold, head: Math.max(0, hold.head - 1) } : hold
    },
  }),
}

const brokenLookups: Broken<LookupStore> = {
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
