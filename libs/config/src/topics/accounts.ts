/** What accounts may hold and do, the mails that they get, and the memory that they take. */
import { accountContentsMax } from '@holdfast/actor-runtime'
import type { Tier } from '@holdfast/kernel'
import {
  bytes,
  bytesOrNone,
  choice,
  daysOrNone,
  integer,
  onOff,
  pattern,
  type Setting,
  seconds,
  secret,
  type ValuesOf,
} from '../setting-kinds.ts'

const domainsForm = 'domains like example.org'
const smtpForm = 'a URL like smtp://mail.example.org:587 or smtps://user:password@mail.example.org'

export const accountSettings = {
  HOLDFAST_OPEN_LISTING: onOff({
    fallback: 'off',
    meaning: '`on` opens GET /contents/{id} and search to every tier, also without a website token.',
  }),
  HOLDFAST_DIRECT_LINKS_PREMIUM: onOff({
    fallback: 'off',
    meaning: '`on` lets only premium accounts make direct links.',
  }),
  HOLDFAST_SIGNUP: choice(['open', 'invite', 'closed'], {
    fallback: 'open',
    meaning:
      'Who may make an account by POST /accounts: anybody (`open`), an address that the operator or a member invited (`invite`), no one (`closed`). The operator always may.',
  }),
  HOLDFAST_SIGNUP_DOMAINS: domains({
    meaning: 'Domains of the addresses that may sign up, like `example.org,example.com`; empty: any.',
  }),
  HOLDFAST_GUEST_UPLOADS: onOff({
    fallback: 'on',
    meaning: '`off` refuses uploads without a token, and those of guests’ accounts.',
  }),
  HOLDFAST_MAX_FILE_BYTES: bytesOrNone({
    fallback: 'none',
    meaning: 'Bytes of the largest file that may be uploaded, or `none`.',
  }),
  HOLDFAST_EXPIRY_SWEEP_SECONDS: seconds({
    fallback: '1',
    min: 0.05,
    max: 3600,
    meaning:
      'How often the service looks for due expiries, seconds. Visitors are refused from the second of an expiry on.',
  }),
  HOLDFAST_CLOCK_JUMP_SECONDS: seconds({
    fallback: '604800',
    min: 60,
    max: 10 * 365 * 86_400,
    meaning:
      'In the embedded service: how far the clock may be ahead of the newest time that the service recorded, seconds; 7 days. Beyond it nothing expires until `ctl clock accept`. Longer than the service is ever off.',
  }),
  HOLDFAST_GUEST_CONTENTS: contents('10000', 'guest'),
  HOLDFAST_STANDARD_CONTENTS: contents('10000', 'standard'),
  HOLDFAST_PREMIUM_CONTENTS: contents(String(accountContentsMax), 'premium'),
  HOLDFAST_GUEST_STORAGE: storage('guest'),
  HOLDFAST_STANDARD_STORAGE: storage('standard'),
  HOLDFAST_PREMIUM_STORAGE: storage('premium'),
  HOLDFAST_GUEST_TRAFFIC: traffic('guest'),
  HOLDFAST_STANDARD_TRAFFIC: traffic('standard'),
  HOLDFAST_PREMIUM_TRAFFIC: traffic('premium'),
  HOLDFAST_GUEST_LIFETIME_DAYS: lifetime('guests’'),
  HOLDFAST_GUEST_LIFETIME_MAX_DAYS: lifetimeMax('guests’'),
  HOLDFAST_GUEST_IDLE_DAYS: idle('guests’'),
  HOLDFAST_STANDARD_LIFETIME_DAYS: lifetime('standard accounts’'),
  HOLDFAST_STANDARD_LIFETIME_MAX_DAYS: lifetimeMax('standard accounts’'),
  HOLDFAST_STANDARD_IDLE_DAYS: idle('standard accounts’'),
  HOLDFAST_UNDO_SECONDS: integer({
    fallback: '86400',
    min: 0,
    max: 30 * 86_400,
    meaning:
      'How long `ctl deletions undo` can undo deletions by expiries, by the end of the bin and of unused files, seconds; 0: not at all. Their bytes stay on the disk for this long.',
  }),
  HOLDFAST_SMTP_URL: secret({
    meaning:
      'Relay for mails, like `smtps://user:password@mail.example.org`. Without it: files in `<data dir>/outbox/`.',
    form: smtpForm,
    check: smtpUrl,
  }),
  HOLDFAST_MAIL_FROM: pattern(/^[^\r\n]*@[^\r\n]*$/, 'a mail address, or `Name <address>`', {
    fallback: 'Holdfast <no-reply@localhost>',
    meaning: 'Sender of sign-in mails.',
  }),
  HOLDFAST_ACCOUNT_MEMORY: bytes({
    fallback: '256MiB',
    meaning:
      'Memory for loaded accounts, at most a sixth of the heap of Node. Above it the accounts that were idle longest are unloaded, and others are loaded in their place.',
  }),
}

export interface AccountsConfig {
  openListing: boolean
  directLinksPremium: boolean
  /** Who may make an account; `domains` in lower case, none: any. */
  signUp: { mode: 'open' | 'invite' | 'closed'; domains: string[] }
  guestUploads: boolean
  /** Undefined: no limit. */
  fileBytesMax: number | undefined
  expirySweepMs: number
  /** The clock may be this much ahead of the newest noted time. */
  clockJumpMs: number
  tiers: Record<Tier, TierSettings>
  lifetimes: Record<'guest' | 'standard', LifetimeSettings>
  /** How long deletions by timers can be undone. */
  undoSeconds: number
  mailFrom: string
  accountMemoryBytes: number
}

/** Undefined: none. */
export interface LifetimeSettings {
  /** Lifetime of a new folder. */
  folderSeconds: number | undefined
  folderSecondsMax: number | undefined
  /** Lifetime of a file without a download. */
  idleSeconds: number | undefined
}

/** Bytes, undefined: no limit. */
export interface TierSettings {
  contents: number
  storage: number | undefined
  traffic: number | undefined
}

type Values = ValuesOf<typeof accountSettings>

export function accountsConfig(values: Values): AccountsConfig {
  return {
    openListing: values.HOLDFAST_OPEN_LISTING,
    directLinksPremium: values.HOLDFAST_DIRECT_LINKS_PREMIUM,
    signUp: { mode: values.HOLDFAST_SIGNUP, domains: values.HOLDFAST_SIGNUP_DOMAINS },
    guestUploads: values.HOLDFAST_GUEST_UPLOADS,
    fileBytesMax: values.HOLDFAST_MAX_FILE_BYTES,
    expirySweepMs: values.HOLDFAST_EXPIRY_SWEEP_SECONDS * 1000,
    clockJumpMs: values.HOLDFAST_CLOCK_JUMP_SECONDS * 1000,
    tiers: tiersOf(values),
    lifetimes: {
      guest: {
        folderSeconds: values.HOLDFAST_GUEST_LIFETIME_DAYS,
        folderSecondsMax: values.HOLDFAST_GUEST_LIFETIME_MAX_DAYS,
        idleSeconds: values.HOLDFAST_GUEST_IDLE_DAYS,
      },
      standard: {
        folderSeconds: values.HOLDFAST_STANDARD_LIFETIME_DAYS,
        folderSecondsMax: values.HOLDFAST_STANDARD_LIFETIME_MAX_DAYS,
        idleSeconds: values.HOLDFAST_STANDARD_IDLE_DAYS,
      },
    },
    undoSeconds: values.HOLDFAST_UNDO_SECONDS,
    mailFrom: values.HOLDFAST_MAIL_FROM,
    accountMemoryBytes: values.HOLDFAST_ACCOUNT_MEMORY,
  }
}

function tiersOf(values: Values): AccountsConfig['tiers'] {
  return {
    guest: {
      contents: values.HOLDFAST_GUEST_CONTENTS,
      storage: values.HOLDFAST_GUEST_STORAGE,
      traffic: values.HOLDFAST_GUEST_TRAFFIC,
    },
    standard: {
      contents: values.HOLDFAST_STANDARD_CONTENTS,
      storage: values.HOLDFAST_STANDARD_STORAGE,
      traffic: values.HOLDFAST_STANDARD_TRAFFIC,
    },
    premium: {
      contents: values.HOLDFAST_PREMIUM_CONTENTS,
      storage: values.HOLDFAST_PREMIUM_STORAGE,
      traffic: values.HOLDFAST_PREMIUM_TRAFFIC,
    },
  }
}

function contents(fallback: string, tier: string): Setting<number> {
  return integer({
    fallback,
    min: 0,
    max: accountContentsMax,
    meaning: `Files and folders a ${tier} account may hold. One account can carry ${accountContentsMax}.`,
  })
}

function storage(tier: string): Setting<number | undefined> {
  return bytesOrNone({ fallback: 'none', meaning: `Bytes a ${tier} account may hold, or \`none\`.` })
}

function traffic(tier: string): Setting<number | undefined> {
  return bytesOrNone({
    fallback: 'none',
    meaning: `Direct traffic shown as a ${tier} account’s limit, bytes, or \`none\`.`,
  })
}

function lifetime(whose: string): Setting<number | undefined> {
  return daysOrNone({
    fallback: 'none',
    meaning: `Days after which ${whose} new folders expire, unless they inherit an expiry or the owner sets one; or \`none\`: then the longest lifetime, if there is one. Files directly in the root stay.`,
  })
}

function lifetimeMax(whose: string): Setting<number | undefined> {
  return daysOrNone({
    fallback: 'none',
    meaning: `Days that ${whose} folders live at most after they were made, or \`none\`. A later expiry is cut to it. Folders that have no expiry keep none until the owner sets one.`,
  })
}

function idle(whose: string): Setting<number | undefined> {
  return daysOrNone({
    fallback: 'none',
    meaning: `Days without a download after which ${whose} files are deleted, or \`none\`. They count from the upload, and for older files from when the setting began to hold.`,
  })
}

/** Rules over several of these settings. */
export function lifetimesFit(values: Partial<Values>): string[] {
  const names = [
    ['HOLDFAST_GUEST_LIFETIME_DAYS', 'HOLDFAST_GUEST_LIFETIME_MAX_DAYS'],
    ['HOLDFAST_STANDARD_LIFETIME_DAYS', 'HOLDFAST_STANDARD_LIFETIME_MAX_DAYS'],
  ] as const
  return names
    .filter(([usual, max]) => (values[usual] ?? 0) > (values[max] ?? Number.POSITIVE_INFINITY))
    .map(([usual, max]) => `${usual} is longer than ${max}`)
}

function domains({ meaning }: { meaning: string }): Setting<string[]> {
  return {
    fallback: '',
    meaning,
    form: domainsForm,
    secret: false,
    parse: (value) => {
      const names = value === '' ? [] : value.split(',').map((name) => name.trim().toLowerCase())
      for (const name of names)
        if (!/^([a-z0-9-]{1,63}\.)+[a-z0-9-]{1,63}$/.test(name))
          throw new Error(`names "${name}", but must name ${domainsForm}`)
      return names
    },
  }
}

function smtpUrl(value: string): void {
  const url = URL.canParse(value) ? new URL(value) : undefined
  if (url === undefined || !/^smtps?:$/.test(url.protocol) || url.hostname === '')
    throw new Error(`must be ${smtpForm}`)
}
