/**
 * The operator's commands. Each one defines its name, its options and its calls; the help text is
 * made from the same table.
 */
import { tiers } from '@holdfast/kernel'
import type { AdminCall } from './admin-client.ts'
import { backupCommands } from './backup-commands.ts'
import { certsCommands } from './certs-commands.ts'
import { type Command, json, known, parseNumber, type Step, UsageFault, whole } from './command.ts'
import { moderationCommands } from './moderation-commands.ts'
import { reportCommands } from './report-commands.ts'
import { transferCommands } from './transfer-commands.ts'

export const commands: readonly Command[] = [
  {
    words: 'status',
    usage: '',
    meaning: 'Version, start time, content and readiness.',
    plan: (words) => [whole(words, async (call) => json(await call('GET', '/admin/status')))],
  },
  {
    words: 'account show',
    usage: '<id or e-mail> …',
    meaning: 'Tier, limits and figures of accounts.',
    plan: (words) =>
      namesOf(words).map((name) => ({
        about: name,
        run: async (call) => json(await call('GET', accountPath(name))),
      })),
  },
  {
    words: 'account create',
    usage: '[e-mail]',
    meaning: 'Makes an account: standard, its sign-in link is mailed; without an address a guest.',
    plan: ([email, ...others]) => [
      whole(others, async (call) =>
        json(await call('POST', '/admin/accounts', email === undefined ? {} : { email })),
      ),
    ],
  },
  {
    words: 'invite',
    usage: '<e-mail> … [--days N]',
    meaning:
      'Invites addresses when accounts need an invitation: prints the link to send them, which makes an account within 7 or N days. A process that does not know the address of the pages prints only its path.',
    options: { days: 'string' },
    plan: (words, { days }) =>
      namesOf(words).map((email) => ({
        about: email,
        run: async (call) => {
          const body = { email, ...(days === undefined ? {} : { days: parseNumber('days', days) }) }
          const invited = await call('POST', '/admin/invitations', body)
          const { addresses } = await call('GET', '/admin/status')
          const { web } = addresses as { web?: string }
          return json(web === undefined ? invited : { ...invited, link: `${web}${invited.page}` })
        },
      })),
  },
  {
    words: 'account tier',
    usage: `<id or e-mail> … <${tiers.join('|')}> [--type NAME]`,
    meaning: 'Moves accounts to a tier; NAME is shown as premiumType.',
    options: { type: 'string' },
    plan: (words, { type }) => {
      const { names, last } = namesAndLast(words, tiers)
      const change = { tier: last, ...(typeof type === 'string' ? { premiumType: type } : {}) }
      return changes(names, change, (account) => `${account.tier}`)
    },
  },
  {
    words: 'account bin',
    usage: '<id or e-mail> … <on|off>',
    meaning: 'Switches the recycle bin of accounts.',
    plan: (words) => {
      const { names, last } = namesAndLast(words, ['on', 'off'])
      return changes(names, { recycleBin: last === 'on' }, () => `bin ${last}`)
    },
  },
  {
    words: 'account limits',
    usage: '<id or e-mail> … [--contents N|none] [--storage BYTES|none]',
    meaning: 'Sets limits of accounts; none restores those of their tier.',
    options: { contents: 'string', storage: 'string' },
    plan: (words, { contents, storage }) => {
      if (contents === undefined && storage === undefined)
        throw new UsageFault('--contents or --storage is missing')
      const limits = { ...limitOf('contents', contents), ...limitOf('storage', storage) }
      return changes(namesOf(words), { limits }, ({ limits: now }) => json(now, ''))
    },
  },
  {
    words: 'account mail',
    usage: '<id or e-mail> …',
    meaning: 'Mails accounts their sign-in link.',
    plan: (words) =>
      namesOf(words).map((name) => ({
        about: name,
        run: async (call) => `${name} ${(await call('POST', `${accountPath(name)}/sign-in`)).email}`,
      })),
  },
  {
    words: 'account repair',
    usage: '<id or e-mail> … [--dry-run]',
    meaning:
      'Makes accounts with a damaged journal readable again, keeps the damaged rows aside, and reports what was lost. --dry-run only reports.',
    options: { 'dry-run': 'boolean' },
    plan: (words, { 'dry-run': dryRun }) =>
      namesOf(words).map((name) => ({
        about: name,
        run: async (call) =>
          json(await call('POST', `${accountPath(name)}/repair`, { dryRun: dryRun === true })),
      })),
  },
  {
    words: 'deletions list',
    usage: '<id or e-mail> …',
    meaning:
      'Deletions by timers that can be undone: expired folders, content of 30 days in the bin, files without downloads.',
    plan: (words) =>
      namesOf(words).map((name) => ({
        about: name,
        run: async (call) => json((await call('GET', `${accountPath(name)}/deletions`)).deletions),
      })),
  },
  {
    words: 'deletions undo',
    usage: '<id or e-mail> <content id …>',
    meaning:
      'Undoes such deletions, all or none: contents return to their folder, or to the root, without expiries in the past.',
    plan: ([account, ...words]) => {
      if (account === undefined) throw new UsageFault('the account is missing')
      const contents = namesOf(words)
      const path = `${accountPath(account)}/deletions/undo`
      return [
        { about: account, run: async (call) => json((await call('POST', path, { contents })).contents) },
      ]
    },
  },
  {
    words: 'legacy-folder',
    usage: '<id or e-mail> … [--no-code] [--name NAME]',
    meaning:
      'Makes a public folder with a 6-character code, or a private one without any; prints <folderId> <code>.',
    options: { 'no-code': 'boolean', name: 'string' },
    plan: (words, { 'no-code': noCode, name }) =>
      namesOf(words).map((account) => ({
        about: account,
        run: async (call) => {
          const body = { noCode: noCode === true, ...(typeof name === 'string' ? { name } : {}) }
          const { folderId, code } = await call('POST', `${accountPath(account)}/legacy-folder`, body)
          return code === null ? `${folderId}` : `${folderId} ${code}`
        },
      })),
  },
  {
    words: 'collect',
    usage: '[--grace SECONDS]',
    meaning:
      'Frees unreferenced bytes now. Those of the last 10 minutes may belong to a running upload and stay.',
    options: { grace: 'string' },
    plan: (words, { grace }) => {
      const body = grace === undefined ? {} : { graceSeconds: parseNumber('grace', grace) }
      return [whole(words, async (call) => json(await call('POST', '/admin/collect', body)))]
    },
  },
  {
    words: 'reconcile',
    usage: '[--dry-run]',
    meaning:
      'Compares the references of all files with all accounts: restores missing ones, removes those that no account uses, and prints the counts. --dry-run only prints them.',
    options: { 'dry-run': 'boolean' },
    plan: (words, { 'dry-run': dryRun }) => [
      whole(words, async (call) => json(await call('POST', '/admin/reconcile', { dryRun: dryRun === true }))),
    ],
  },
  ...backupCommands,
  ...certsCommands,
  {
    words: 'clock accept',
    usage: '',
    meaning:
      'Says that the clock of the machine is right, although it is far from the newest time that the service recorded: expiries fire again.',
    plan: (words) => [
      whole(words, async (call) =>
        json(
          await known(
            call('POST', '/admin/clock/accept'),
            'the processes of a cluster compare their clocks with each other: set the clock that ctl status (cluster.clocks) names',
          ),
        ),
      ),
    ],
  },
  {
    words: 'bans',
    usage: '',
    meaning: 'Networks that are banned because they exceeded rate limits repeatedly.',
    plan: (words) => [whole(words, async (call) => json((await call('GET', '/admin/bans')).bans))],
  },
  {
    words: 'unban',
    usage: '<address or network> …',
    meaning: 'Lifts their bans.',
    plan: (words) =>
      namesOf(words).map((network) => ({
        about: network,
        run: async (call) => {
          const { lifted } = await call('DELETE', `/admin/bans/${encodeURIComponent(network)}`)
          return `${network} ${lifted === true ? 'is no longer banned' : 'was not banned'}`
        },
      })),
  },
  ...moderationCommands,
  ...transferCommands,
  ...reportCommands,
  {
    words: 'region evacuate',
    usage: '<code> [--fenced]',
    meaning:
      'Evacuates a lost region: the region that also keeps its journals serves its accounts, and reports what may have been lost. --fenced states that the region is off, or cut off from its users; it is needed when most regions do not answer.',
    options: { fenced: 'boolean' },
    plan: (words, { fenced }) =>
      oneName(words, (region) =>
        moveUntilComplete(`/admin/regions/${encodeURIComponent(region)}/evacuate`, {
          fenced: fenced === true,
        }),
      ),
  },
  {
    words: 'region return',
    usage: '<code> [--fenced]',
    meaning:
      'Moves the accounts of an evacuated region back home. Nothing is lost while the region that serves them now is up. --fenced states that this region is off or cut off: then only the changes that have arrived at home count.',
    options: { fenced: 'boolean' },
    plan: (words, { fenced }) =>
      oneName(words, (region) =>
        moveUntilComplete(`/admin/regions/${encodeURIComponent(region)}/return`, { fenced: fenced === true }),
      ),
  },
  {
    words: 'node drain',
    usage: '<name>',
    meaning:
      'Moves the copies of a storage node to others; you may stop it permanently when status shows it in no placement group.',
    plan: (words) => oneName(words, (node) => post(`/admin/nodes/${encodeURIComponent(node)}/drain`)),
  },
  {
    words: 'node remove',
    usage: '<name>',
    meaning: 'States that a storage node is lost for good: others copy at once what it held.',
    plan: (words) => oneName(words, (node) => post(`/admin/nodes/${encodeURIComponent(node)}/remove`)),
  },
  {
    words: 'node return',
    usage: '<name>',
    meaning: 'Makes a drained or removed storage node an ordinary one again.',
    plan: (words) => oneName(words, (node) => post(`/admin/nodes/${encodeURIComponent(node)}/return`)),
  },
  {
    words: 'config',
    usage: '',
    meaning: 'Active settings of the running service; secrets masked.',
    plan: (words) => [
      whole(words, async (call) => {
        const { settings } = await call('GET', '/admin/settings')
        return (settings as { name: string; value: string }[])
          .map(({ name, value }) => `${name}=${value}`)
          .join('\n')
      }),
    ],
  },
]

function changes(
  names: string[],
  change: unknown,
  show: (account: Record<string, unknown>) => string,
): Step[] {
  return names.map((name) => ({
    about: name,
    run: async (call) => `${name} ${show(await call('POST', accountPath(name), change))}`,
  }))
}

/** A call that only a cluster accepts. */
function post(path: string, body: object = {}): (call: AdminCall) => Promise<string> {
  return async (call) => json(await known(call('POST', path, body), 'error-noCluster'))
}

/** Many accounts take several calls, each of which continues where the one before ended. */
function moveUntilComplete(path: string, body: { fenced: boolean }): Step['run'] {
  return async (call, printLine) => {
    for (let hasMoved = false; ; ) {
      const answer = JSON.parse(await post(path, body)(call)) as Record<string, unknown>
      hasMoved ||= answer.moved === true
      if (answer.complete !== false) return json({ ...answer, moved: hasMoved })
      printLine(`${answer.accounts} accounts were examined, and there are more`)
    }
  }
}

function oneName(words: string[], run: (name: string) => Step['run']): Step[] {
  const [name, ...others] = words
  if (name === undefined) throw new UsageFault('the name is missing')
  if (others.length > 0) throw new UsageFault(`unexpected argument: ${others.join(' ')}`)
  return [{ about: name, run: run(name) }]
}

/** Names are separated by spaces or commas. */
function namesOf(words: string[]): string[] {
  const names = words.flatMap((word) => word.split(',')).filter((name) => name !== '')
  if (names.length === 0) throw new UsageFault('a name is missing')
  return names
}

function namesAndLast(words: string[], among: readonly string[]): { names: string[]; last: string } {
  const last = words.at(-1) ?? ''
  if (!among.includes(last)) throw new UsageFault(`the last argument must be one of ${among.join(', ')}`)
  return { names: namesOf(words.slice(0, -1)), last }
}

function limitOf(name: string, text: string | boolean | undefined): Record<string, number | null> {
  if (text === undefined) return {}
  return { [name]: text === 'none' ? null : parseNumber(name, text) }
}

function accountPath(name: string): string {
  return `/admin/accounts/${encodeURIComponent(name)}`
}
