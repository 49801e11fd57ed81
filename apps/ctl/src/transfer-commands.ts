/** The operator's search in the record of uploads and downloads. */
import { type Command, json, parseNumber, UsageFault, whole } from './command.ts'

const conditions = ['address', 'account', 'content', 'name', 'hash'] as const
const shown = 100
const shownMax = 100_000

export const transferCommands: readonly Command[] = [
  search(
    'uploads',
    'The record of uploads, newest first: time, address, account, content, name, hashes. Each condition that is given must hold; an address may be a CIDR range, a name a part of one.',
  ),
  search('downloads', 'The same of downloads, where HOLDFAST_DOWNLOAD_RECORD_DAYS keeps them.'),
]

function search(words: 'uploads' | 'downloads', meaning: string): Command {
  return {
    words,
    usage: '[--address A] [--account ID or e-mail] [--content ID] [--name TEXT] [--hash H] [--count N]',
    meaning: `${meaning} N: at most that many, ${shown} without it.`,
    options: { ...Object.fromEntries(conditions.map((name) => [name, 'string' as const])), count: 'string' },
    plan: (others, options) => {
      const count = options.count === undefined ? shown : parseNumber('count', options.count)
      if (count < 1 || count > shownMax)
        throw new UsageFault(`--count takes a whole number from 1 to ${shownMax}`)
      const query = new URLSearchParams()
      for (const name of conditions) {
        const value = options[name]
        if (typeof value === 'string') query.set(name, value)
      }
      return [
        whole(others, async (call) => {
          const rows: unknown[] = []
          for (let next: string | null = ''; next !== null && rows.length < count; ) {
            if (next !== '') query.set('after', next)
            const page = await call('GET', `/admin/${words}?${query}`)
            rows.push(...(page[words] as unknown[]))
            next = page.next as string | null
          }
          return json(rows.slice(0, count))
        }),
      ]
    },
  }
}
