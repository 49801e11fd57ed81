/** The operator's queue of reports. */
import { type Command, json, type Step, UsageFault, whole } from './command.ts'
import { reasonOf } from './moderation-commands.ts'

const states = ['new', 'accepted', 'rejected']

export const reportCommands: readonly Command[] = [
  {
    words: 'reports list',
    usage: `[--state ${states.join('|')}]`,
    meaning: 'Reports of visitors, newest first; without --state those that wait for a decision.',
    options: { state: 'string' },
    plan: (others, { state = 'new' }) => {
      if (typeof state !== 'string' || !states.includes(state))
        throw new UsageFault(`--state is one of ${states.join(', ')}`)
      return [
        whole(others, async (call) => {
          const all: unknown[] = []
          for (let after: string | null = ''; after !== null; ) {
            const page = await call('GET', `/admin/reports?state=${state}&after=${after}`)
            all.push(...(page.reports as unknown[]))
            after = page.next as string | null
          }
          return json(all)
        }),
      ]
    },
  },
  {
    words: 'reports show',
    usage: '<id of a report> …',
    meaning: 'A report: the content, its account, the reason, the reporter.',
    plan: (words) => each(words, (id) => async (call) => json((await call('GET', pathOf(id))).report)),
  },
  {
    words: 'reports accept',
    usage: '<id of a report> … [--block] [--delete] [--suspend] [--reason TEXT]',
    meaning:
      'Closes reports. --block blocks the bytes of the file, or of all files in the folder, --delete deletes the content, --suspend suspends its account. Prints the acts, which can be undone.',
    options: { block: 'boolean', delete: 'boolean', suspend: 'boolean', reason: 'string' },
    plan: (words, { block = false, delete: remove = false, suspend = false, ...rest }) =>
      each(words, (id) => decide(id, 'accept', { block, delete: remove, suspend, ...reasonOf(rest) })),
  },
  {
    words: 'reports reject',
    usage: '<id of a report> … [--reason TEXT]',
    meaning:
      'Closes reports and does nothing else. Prints the acts of an earlier accept that still hold: undo reverses them.',
    options: { reason: 'string' },
    plan: (words, options) => each(words, (id) => decide(id, 'reject', reasonOf(options))),
  },
]

function each(words: string[], runOf: (id: string) => Step['run']): Step[] {
  if (words.length === 0) throw new UsageFault('a name is missing')
  return words.map((id) => ({ about: id, run: runOf(id) }))
}

function decide(id: string, act: 'accept' | 'reject', body: object): Step['run'] {
  return async (call) => {
    const { report, acts, standing = [] } = await call('POST', `${pathOf(id)}/${act}`, body)
    const decided = `${id} ${(report as { state: string }).state}`
    const hold = (standing as ReportedAct[]).map((one) => `${lineOf(one)} still holds: undo ${one.id}`)
    return [...(acts as ReportedAct[]).map(lineOf), decided, ...hold].join('\n')
  }
}

interface ReportedAct {
  id: string
  kind: string
  what: string
}

function lineOf({ id, kind, what }: ReportedAct): string {
  return `${id} ${kind} ${what}`
}

function pathOf(id: string): string {
  return `/admin/reports/${encodeURIComponent(id)}`
}
