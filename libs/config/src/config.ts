/**
 * The operator's settings. Each topic has its settings with default, unit and meaning, and the part
 * of the `Config` that is made of them. Reading is pure.
 */
import { type Environment, readSettings, type Setting, type ValuesOf } from './setting-kinds.ts'
import { type AccountsConfig, accountSettings, accountsConfig, lifetimesFit } from './topics/accounts.ts'
import {
  type HostsConfig,
  hostPorts,
  hostSettings,
  hostsConfig,
  portsDiffer,
  tokensDiffer,
} from './topics/hosts.ts'
import { type ModerationConfig, moderationConfig, moderationSettings } from './topics/moderation.ts'
import { type ProcessConfig, processConfig, processSettings } from './topics/process.ts'
import { type StorageConfig, storageConfig, storageSettings } from './topics/storage.ts'

export const settings = {
  ...hostSettings,
  ...processSettings,
  ...accountSettings,
  ...moderationSettings,
  ...storageSettings,
}

export type SettingValues = ValuesOf<typeof settings>

/** The environment as one frozen value. Nothing in it is secret. */
export interface Config extends HostsConfig, ProcessConfig, AccountsConfig, ModerationConfig, StorageConfig {}

/** Never logged, never printed. */
export interface Secrets {
  smtpUrl: string | undefined
  adminToken: string | undefined
  metricsToken: string | undefined
}

/**
 * Reads the environment.
 * @throws SettingsFault naming every fault at once, unknown HOLDFAST_ names included.
 */
export function readConfig(
  env: Environment,
  { readSecret }: { readSecret: (path: string) => string },
): { config: Config; secrets: Secrets } {
  const values = readSettings(settings, env, {
    prefix: 'HOLDFAST_',
    readSecret,
    check: (read) => [...portsDiffer(read, hostPorts), ...tokensDiffer(read), ...lifetimesFit(read)],
  })
  return { config: deepFreeze(configOf(values)), secrets: Object.freeze(secretsOf(values)) }
}

export function configOf(values: SettingValues): Config {
  return {
    ...hostsConfig(values),
    ...processConfig(values),
    ...accountsConfig(values),
    ...moderationConfig(values),
    ...storageConfig(values),
  }
}

export function secretsOf(values: SettingValues): Secrets {
  return {
    smtpUrl: values.HOLDFAST_SMTP_URL,
    adminToken: values.HOLDFAST_ADMIN_TOKEN,
    metricsToken: values.HOLDFAST_METRICS_TOKEN,
  }
}

/** One line a setting, for `npm run config` and the operator's `ctl config`: secrets masked. */
export function describeSettings(
  env: Environment,
  schema: Record<string, Setting<unknown>> = settings,
): SettingDescription[] {
  return Object.entries(schema).map(([name, setting]) => {
    const value = env[name]?.trim() || (setting.secret && env[`${name}_FILE`] ? '(from file)' : '')
    return {
      name,
      value: setting.secret ? (value === '' ? '' : '(set)') : value || setting.fallback,
      fallback: setting.fallback,
      meaning: setting.meaning,
    }
  })
}

export interface SettingDescription {
  name: string
  /** Active value; empty: none. */
  value: string
  fallback: string
  meaning: string
}

export function deepFreeze<T extends object>(value: T): T {
  for (const part of Object.values(value)) if (typeof part === 'object' && part !== null) deepFreeze(part)
  return Object.freeze(value)
}
