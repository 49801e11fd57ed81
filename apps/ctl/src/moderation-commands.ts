/** The operator's commands against abuse: what is blocked, and the log of what operators did. */
import { readFileSync } from 'node:fs'
import { blockLists } from '@holdfast/moderation'
import type { Call } from './admin-client.ts'
import { type Command, type Options, type Step, UsageFault, whole } from './command.ts'

/** What one call takes. */
const namesPerCall = 3_000
const actsShown = 50
const actsShownMax = 10_000

export const moderationCommands: readonly Command[] = [
  {
    words: 'content show',
    usage: '<id, share code or link> …',
    meaning: 'What it is, whose, its hashes, who else uses the same bytes, its direct links, what is in it.',
    plan: (words) =>
      contentsOf(words).map((name) => ({
        about: name,
        run: async (call) =>
          JSON.stringify(await call('GET', `/admin/contents?name=${encodeURIComponent(name)}`), null, '  '),
      })),
  },
  {
    words: 'content find',
    usage: '<id or e-mail of an account> <text> [--page N]',
    meaning: 'Contents of an account whose name or tags have the text in them, 100 a page.',
    options: { page: 'string' },
    plan: ([account, text, ...others], { page }) => {
      if (account === undefined || text === undefined) throw new UsageFault('name an account and a text')
      return [
        whole(others, async (call) => {
          const query = new URLSearchParams({ text, ...(typeof page === 'string' ? { page } : {}) })
          const path = `/admin/accounts/${encodeURIComponent(account)}/contents?${query}`
          return JSON.stringify((await call('GET', path)).hits, null, '  ')
        }),
      ]
    },
  },
  {
    words: 'content delete',
    usage: '<id, share code or link> … [--reason TEXT]',
    meaning:
      'Deletes contents as their owner would: into the bin where the account has one, else for good. Prints the act, which cannot be undone; to block can.',
    options: { reason: 'string' },
    plan: (words, options) =>
      contentsOf(words).map((name) => ({
        about: name,
        run: async (call) => {
          const { act } = await call('POST', '/admin/contents/delete', { name, ...reasonOf(options) })
          return `${(act as { id: string }).id} 1 deleted`
        },
      })),
  },
  change(
    'block',
    'Blocks them: content, by its md5 or BLAKE3, is neither sent nor stored any more; an account, by its id or e-mail, is suspended; a network, an address or CIDR range, is kept out; an invitation, by its e-mail address, does not count.',
    'blocked',
  ),
  change('unblock', 'Lifts such blocks.', 'unblocked'),
  {
    words: 'blocked',
    usage: `<${blockLists.join('|')}>`,
    meaning: 'What is blocked, one name a line; another service takes it with block --file.',
    plan: ([list, ...others]) => [
      whole(others, async (call) => (await allNames(call, listOf(list))).join('\n')),
    ],
  },
  {
    words: 'acts',
    usage: '[--count N]',
    meaning: `The log of what operators did, newest first, as JSON; ${actsShown} without --count.`,
    options: { count: 'string' },
    plan: (words, { count }) => {
      const wanted = count === undefined ? actsShown : Number(count)
      if (!Number.isInteger(wanted) || wanted < 1 || wanted > actsShownMax)
        throw new UsageFault(`--count takes a whole number up to ${actsShownMax}`)
      return [whole(words, async (call) => JSON.stringify(await lastActs(call, wanted), null, '  '))]
    },
  },
  {
    words: 'undo',
    usage: '<id of an act> … [--reason TEXT]',
    meaning: 'Takes back what acts of the last 30 days did. An undo is an act, and can be undone.',
    options: { reason: 'string' },
    plan: (words, options) => {
      if (words.length === 0) throw new UsageFault('name at least one')
      return words.map((id) => ({
        about: id,
        run: async (call) => {
          const path = `/admin/acts/${encodeURIComponent(id)}/undo`
          return told(await call('POST', path, reasonOf(options)), 'changed')
        },
      }))
    },
  },
]

function change(words: 'block' | 'unblock', meaning: string, done: string): Command {
  return {
    words,
    usage: `<${blockLists.join('|')}> <name> … [--file FILE] [--reason TEXT]`,
    meaning: `${meaning} FILE has a name a line; - reads standard input. Prints the act, which undo takes back.`,
    options: { file: 'string', reason: 'string' },
    plan: ([list, ...named], options) => {
      const path = `/admin/blocked/${listOf(list)}/${words}`
      const { file } = options
      if (named.length === 0 && file === undefined) throw new UsageFault('name at least one, or a --file')
      const inFile = typeof file === 'string' ? namesIn(file) : []
      const names = [...named.flatMap((word) => word.split(',')).filter((name) => name !== ''), ...inFile]
      return pieces(names).map((piece) => send(path, piece, { options, done }))
    },
  }
}

function send(path: string, names: string[], { options, done }: { options: Options; done: string }): Step {
  const about = names.length === 1 ? (names[0] as string) : `${names.length} names from ${names[0]}`
  const run: Step['run'] = async (call) =>
    told(await call('POST', path, { names, ...reasonOf(options) }), done)
  return { about, run }
}

function told({ act, changed, unchanged }: Record<string, unknown>, done: string): string {
  const others = unchanged === 0 ? '' : `, ${unchanged} were so already`
  return `${(act as { id: string }).id} ${changed} ${done}${others}`
}

async function allNames(call: Call, list: string): Promise<string[]> {
  const all: string[] = []
  for (let after: string | null = ''; after !== null; ) {
    const page = await call('GET', `/admin/blocked/${list}?after=${encodeURIComponent(after)}`)
    for (const { name } of page.names as { name: string }[]) all.push(name)
    after = page.next as string | null
  }
  return all
}

async function lastActs(call: Call, count: number): Promise<unknown[]> {
  const all: unknown[] = []
  for (let after: string | null = ''; after !== null && all.length < count; ) {
    const page = await call('GET', `/admin/acts?after=${encodeURIComponent(after)}`)
    all.push(...(page.acts as unknown[]))
    after = page.next as string | null
  }
  return all.slice(0, count)
}

function contentsOf(words: string[]): string[] {
  if (words.length === 0) throw new UsageFault('name at least one')
  return words
}

function listOf(word: string | undefined): string {
  if (word === undefined || !blockLists.some((list) => list === word))
    throw new UsageFault(`the first argument must be one of ${blockLists.join(', ')}`)
  return word
}

/** A file that other programs wrote may name each hash before its file, as md5sum does. */
function namesIn(file: string): string[] {
  try {
    const text = readFileSync(file === '-' ? 0 : file, 'utf8')
    const lines = text.split('\n').map((line) => line.replace(/#.*/, '').trim().split(/\s/)[0] ?? '')
    return lines.filter((name) => name !== '')
  } catch (error) {
    throw new UsageFault(`--file cannot be read: ${(error as Error).message}`)
  }
}

function reasonOf({ reason }: Options): { reason?: string } {
  return typeof reason === 'string' ? { reason } : {}
}

function pieces(names: string[]): string[][] {
  const count = Math.ceil(names.length / namesPerCall)
  return Array.from({ length: count }, (_, at) => names.slice(at * namesPerCall, (at + 1) * namesPerCall))
}
