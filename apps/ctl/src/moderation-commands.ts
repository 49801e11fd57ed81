/** The operator's commands against abuse: what is blocked, and the log of what operators did. */
import { readFileSync } from 'node:fs'
import { type BlockList, blockLists, listedName } from '@holdfast/moderation'
import { type AdminCall, AdminError, AdminUnreachable, reasons } from './admin-client.ts'
import { type Command, type Options, type Step, UsageFault, whole } from './command.ts'

/** What one call takes. */
const namesPerCall = 3_000
const actsShown = 50
const actsShownMax = 10_000
const progressEveryMs = 10_000
/** Malformed names in a message. */
const wrongShown = 10

export const moderationCommands: readonly Command[] = [
  {
    words: 'content show',
    usage: '<id, share code or link> …',
    meaning:
      'The item, its account, its hashes, other accounts with the same bytes, its direct links, its children.',
    plan: (words) =>
      contentsOf(words).map((name) => ({
        about: name,
        run: async (call) =>
          JSON.stringify(await call('GET', `/admin/contents?name=${encodeURIComponent(name)}`), null, '  '),
      })),
  },
  {
    words: 'content find',
    usage:
      '<id or e-mail of an account> <text> [--page N] | --all <text> [--after PLACE] | --hash <md5 or BLAKE3> [--after PLACE]',
    meaning:
      'Contents with the text in their name or tags: of an account, 100 per page; with --all of all accounts, one after the other. --hash: files with these bytes in all accounts. Both print each hit on a line when it is found, and regularly the PLACE from which another call continues.',
    options: { page: 'string', all: 'boolean', hash: 'string', after: 'string' },
    plan: (words, { page, all, hash, after }) => {
      const from = typeof after === 'string' ? after : undefined
      if (typeof hash === 'string') return [whole(words, everywhere({ hash }, from))]
      if (all === true) {
        const [text, ...others] = words
        if (text === undefined) throw new UsageFault('the text is missing')
        return [whole(others, everywhere({ text }, from))]
      }
      const [account, text, ...others] = words
      if (account === undefined || text === undefined)
        throw new UsageFault('the account or the text is missing')
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
    usage: '<id, share code or link> … | --hash <md5 or BLAKE3> [--block] [--final] [--reason TEXT]',
    meaning:
      'Deletes contents; with --hash all files with these bytes in all accounts, with --block after blocking the hash. Prints the act, which can be undone for 30 days; --final: it cannot be undone.',
    options: { hash: 'string', block: 'boolean', final: 'boolean', reason: 'string' },
    plan: (words, { hash, block = false, final = false, ...options }) => {
      if (typeof hash === 'string')
        return [whole(words, deleteHash({ hash, block, final, ...reasonOf(options) }))]
      if (block) throw new UsageFault('--block needs --hash')
      return contentsOf(words).map((name) => ({
        about: name,
        run: async (call) => {
          const body = { name, final, ...reasonOf(options) }
          const { act } = await call('POST', '/admin/contents/delete', body)
          return `${(act as { id: string }).id} 1 deleted`
        },
      }))
    },
  },
  {
    words: 'account delete',
    usage: '<id or e-mail> … [--final] [--reason TEXT]',
    meaning:
      'Deletes accounts: they are suspended, and their contents are removed after 30 days; --final: now. Prints the act, which can be undone until then.',
    options: { final: 'boolean', reason: 'string' },
    plan: (words, { final = false, ...options }) =>
      contentsOf(words).map((name) => ({
        about: name,
        run: async (call) => {
          const path = `/admin/accounts/${encodeURIComponent(name)}/delete`
          const { act, endTime } = await call('POST', path, { final, ...reasonOf(options) })
          return `${(act as { id: string }).id} its contents end ${timeOf(endTime as number)}`
        },
      })),
  },
  change(
    'block',
    'Blocks them: content, by its md5 or BLAKE3, is neither sent nor stored any more; an account, by its id or e-mail, is suspended; a network, an address or CIDR range, is refused by the public hosts; an invitation, by its e-mail address, is withdrawn. --yes agrees to a network wider than /8 (IPv6: /16).',
    'blocked',
    { yes: 'boolean' },
  ),
  change('unblock', 'Lifts such blocks.', 'unblocked'),
  {
    words: 'blocked',
    usage: `<${blockLists.join('|')}>`,
    meaning: 'The blocked names, one per line; another service can read them with block --file.',
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
    meaning:
      'Undoes acts of the last 30 days. An undo is an act and can be undone, except that of a deletion: delete again.',
    options: { reason: 'string' },
    plan: (words, options) => {
      if (words.length === 0) throw new UsageFault('a name is missing')
      return words.map((id) => ({
        about: id,
        run: async (call) => {
          const path = `/admin/acts/${encodeURIComponent(id)}/undo`
          const done = { act: {}, changed: 0, unchanged: 0 }
          for (let after: unknown = null; ; ) {
            const piece = await call('POST', path, { ...reasonOf(options), after })
            done.act = piece.act as object
            done.changed += piece.changed as number
            done.unchanged += piece.unchanged as number
            after = piece.next ?? null
            if (after === null) return lineOfAct(done, 'changed')
          }
        },
      }))
    },
  },
]

function change(
  words: 'block' | 'unblock',
  meaning: string,
  done: string,
  more: { yes?: 'boolean' } = {},
): Command {
  const agreed = more.yes === undefined ? '' : ' [--yes]'
  return {
    words,
    usage: `<${blockLists.join('|')}> <name> … [--file FILE]${agreed} [--reason TEXT]`,
    meaning: `${meaning} FILE has one name per line; - reads standard input. Prints the act, which can be undone.`,
    options: { file: 'string', ...more, reason: 'string' },
    plan: ([list, ...named], options) => {
      const path = `/admin/blocked/${listOf(list)}/${words}`
      const { file } = options
      if (named.length === 0 && file === undefined) throw new UsageFault('a name or --file is missing')
      const inFile = typeof file === 'string' ? namesIn(file) : []
      const names = [...named.flatMap((word) => word.split(',')).filter((name) => name !== ''), ...inFile]
      const wrong =
        list === 'account' ? [] : names.filter((name) => listedName(list as BlockList, name) === undefined)
      if (wrong.length > 0) return [refuseNames(wrong)]
      return pieces(names).map((piece) => send(path, piece, { options, done }))
    },
  }
}

/** All are checked before the first is sent: a bad line of a list changes nothing. */
function refuseNames(wrong: readonly string[]): Step {
  const shown = wrong.slice(0, wrongShown).map((name) => name.slice(0, 80))
  const more = wrong.length > wrongShown ? ` and ${wrong.length - wrongShown} more` : ''
  const run = async () => {
    throw new AdminError('error-names')
  }
  return { about: `${shown.join(', ')}${more}`, run }
}

interface FailedAccount {
  account: string
  status: string
}

/** Each hit a line, as it is found. */
function everywhere(sought: Record<string, string>, from: string | undefined): Step['run'] {
  return async (call, printLine, print) => {
    let looked = 0
    let failed = 0
    for (let after = from, reportedMs = Date.now(); ; ) {
      const query = new URLSearchParams({ ...sought, ...(after === undefined ? {} : { after }) })
      const piece = await call('GET', `/admin/contents/find?${query}`)
      for (const hit of piece.hits as object[]) print(JSON.stringify(hit))
      failed += reportFailed(piece.failed as FailedAccount[], printLine)
      looked += piece.looked as number
      if (piece.next === null) {
        if (failed > 0) throw someSilent(failed)
        return undefined
      }
      after = piece.next as string
      if (Date.now() - reportedMs < progressEveryMs) continue
      reportedMs = Date.now()
      printLine(`ctl: ${looked} examined; --after ${after} continues here`)
    }
  }
}

function deleteHash(body: Record<string, unknown>): Step['run'] {
  return async (call, printLine, print) => {
    let deleted = 0
    let failed = 0
    for (let after: unknown = null; ; ) {
      const piece = await call('POST', '/admin/contents/delete-hash', { ...body, after })
      if (piece.blocked !== null) print(`${(piece.blocked as { id: string }).id} 1 blocked`)
      failed += reportFailed(piece.failed as FailedAccount[], printLine)
      deleted += piece.deleted as number
      after = piece.next
      if (after !== null) continue
      print(`${(piece.act as { id: string }).id} ${deleted} deleted`)
      if (failed > 0) throw someSilent(failed)
      return undefined
    }
  }
}

/** @returns how many. */
function reportFailed(failed: readonly FailedAccount[], printLine: (line: string) => void): number {
  for (const { account, status } of failed) printLine(`ctl: account ${account}: ${reasons[status] ?? status}`)
  return failed.length
}

function someSilent(count: number): AdminUnreachable {
  return new AdminUnreachable(`no answer from ${count} of the accounts: repeat the command later`)
}

function timeOf(seconds: number): string {
  return new Date(seconds * 1000).toISOString()
}

function send(path: string, names: string[], { options, done }: { options: Options; done: string }): Step {
  const about = names.length === 1 ? (names[0] as string) : `${names.length} names from ${names[0]}`
  const run: Step['run'] = async (call) =>
    lineOfAct(await call('POST', path, { names, ...wideOf(options), ...reasonOf(options) }), done)
  return { about, run }
}

function lineOfAct({ act, changed, unchanged }: Record<string, unknown>, done: string): string {
  const others = unchanged === 0 ? '' : `, ${unchanged} were so already`
  return `${(act as { id: string }).id} ${changed} ${done}${others}`
}

async function allNames(call: AdminCall, list: string): Promise<string[]> {
  const all: string[] = []
  for (let after: string | null = ''; after !== null; ) {
    const page = await call('GET', `/admin/blocked/${list}?after=${encodeURIComponent(after)}`)
    for (const { name } of page.names as { name: string }[]) all.push(name)
    after = page.next as string | null
  }
  return all
}

async function lastActs(call: AdminCall, count: number): Promise<unknown[]> {
  const all: unknown[] = []
  for (let after: string | null = ''; after !== null && all.length < count; ) {
    const page = await call('GET', `/admin/acts?after=${encodeURIComponent(after)}`)
    all.push(...(page.acts as unknown[]))
    after = page.next as string | null
  }
  return all.slice(0, count)
}

function contentsOf(words: string[]): string[] {
  if (words.length === 0) throw new UsageFault('a name is missing')
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
    const lines = text.split('\n').map(
      (line) =>
        line
          .replace(/^\\|#.*/g, '')
          .trim()
          .split(/\s/)[0] ?? '',
    )
    return lines.filter((name) => name !== '')
  } catch (error) {
    throw new UsageFault(`--file cannot be read: ${(error as Error).message}`)
  }
}

function wideOf({ yes }: Options): { wide?: true } {
  return yes === true ? { wide: true } : {}
}

export function reasonOf({ reason }: Options): { reason?: string } {
  return typeof reason === 'string' ? { reason } : {}
}

function pieces(names: string[]): string[][] {
  const count = Math.ceil(names.length / namesPerCall)
  return Array.from({ length: count }, (_, at) => names.slice(at * namesPerCall, (at + 1) * namesPerCall))
}
