/**
 * Further instances of the service with other settings, for tests that the main one cannot run:
 * rate limits, the operator's switches. Each starts when the first case asks for it.
 */

import { SmtpServer } from '../support/smtp-server.ts'
import { Standalone } from '../support/standalone.ts'
import type { Hosts } from './world.ts'

const settingsByInstance = {
  /** Default limits and bans. */
  limits: { HOLDFAST_RATE_LIMITS: 'default' },
  /** The operator's switches, on. */
  switches: { HOLDFAST_OPEN_LISTING: 'on', HOLDFAST_TRUST_PROXY: '1' },
}
export type InstanceName = keyof typeof settingsByInstance

export class Instances {
  readonly #started = new Map<InstanceName, Promise<Instance>>()

  get(name: InstanceName): Promise<Instance> {
    const started = this.#started.get(name) ?? start(name)
    this.#started.set(name, started)
    return started
  }

  /** The hosts of the running instances. */
  async hosts(): Promise<Hosts[]> {
    const started = await Promise.allSettled(this.#started.values())
    return started.flatMap((start) => (start.status === 'fulfilled' ? [start.value.hosts] : []))
  }

  async stop(): Promise<void> {
    for (const starting of this.#started.values()) {
      const instance = await starting.catch(() => undefined)
      await instance?.service.stop()
      await instance?.smtp.stop()
    }
  }
}

export interface Instance {
  service: Standalone
  hosts: Hosts
  smtp: SmtpServer
}

async function start(name: InstanceName): Promise<Instance> {
  const smtp = await SmtpServer.start()
  const mail: Record<string, string> = name === 'switches' ? { HOLDFAST_SMTP_URL: smtp.url } : {}
  const service = await Standalone.start({ settings: { ...settingsByInstance[name], ...mail } })
  return { service, smtp, hosts: hostsOf(service) }
}

export function hostsOf(service: Standalone): Hosts {
  return {
    api: [service.api],
    upload: [service.upload],
    download: [service.download],
    admin: [service.admin],
    adminToken: undefined,
    web: service.api,
    outbox: [service.outbox],
  }
}
