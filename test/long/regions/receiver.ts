/**
 * A real receiver of alerts on a host of the deployment: the addresses of its file do not exist
 * here.
 */
import { parse, stringify } from 'yaml'
import type { DeployedRegions } from './deployed.ts'
import { until } from './drills.ts'

export const receiverUnit = 'alert-receiver'

const settings = '/etc/prometheus/alertmanager.yml'
const port = 9_999

interface Alertmanager {
  route: Route
  receivers: { name: string; webhook_configs?: { url: string }[] }[]
}

interface Route {
  group_wait: string
  group_interval: string
  routes?: Route[]
}

export class Receiver {
  readonly #deployed: DeployedRegions
  readonly #host: string
  /** Settings of alertmanagers, as rendered, by their host. */
  readonly #rendered = new Map<string, string>()

  /**
   * Resolves when the watchdog of each region came through. Until `restore` every alertmanager
   * sends to it, without waits.
   */
  static async start(deployed: DeployedRegions, host: string): Promise<Receiver> {
    const receiver = new Receiver(deployed, host)
    const sinceSeconds = Math.floor(Date.now() / 1_000)
    try {
      await receiver.#listen()
      for (const { name, roles } of deployed.hosts)
        if (roles.includes('alertmanager')) await receiver.#send(name)
      const regions = deployed.regions.map(({ code }) => code)
      await receiver.#hears(regions, sinceSeconds)
    } catch (error) {
      await receiver.restore().catch((later) => console.error('not restored:', later))
      throw error
    }
    return receiver
  }

  private constructor(deployed: DeployedRegions, host: string) {
    this.#deployed = deployed
    this.#host = host
  }

  get #address(): string {
    return this.#deployed.hosts.find(({ name }) => name === this.#host)?.internal ?? ''
  }

  async #listen(): Promise<void> {
    const program = 'test/long/regions/receiver-program.ts'
    const start = `/opt/holdfast/infra/launch.sh /opt/holdfast/${program} ${this.#address} ${port}`
    const unit = `[Service]\nWorkingDirectory=/opt/holdfast\nExecStart=${start}\n`
    await this.#deployed.write(this.#host, `/etc/systemd/system/${receiverUnit}.service`, unit)
    await this.#deployed.sh(this.#host, `systemctl daemon-reload && systemctl restart ${receiverUnit}`)
  }

  async #send(host: string): Promise<void> {
    const rendered = await this.#deployed.sh(host, `cat ${settings}`)
    this.#rendered.set(host, rendered)
    const { route, receivers, ...others } = parse(rendered) as Alertmanager
    const hurried = ({ routes, ...rest }: Route): Route => ({
      ...rest,
      group_wait: '0s',
      group_interval: '10s',
      ...(routes === undefined ? {} : { routes: routes.map(hurried) }),
    })
    const sent = receivers.map((receiver) => ({
      ...receiver,
      ...(receiver.webhook_configs === undefined
        ? {}
        : { webhook_configs: [{ url: `http://${this.#address}:${port}/${receiver.name}` }] }),
    }))
    await this.#deployed.write(
      host,
      settings,
      stringify({ ...others, route: hurried(route), receivers: sent }),
    )
    await this.#deployed.sh(host, 'systemctl reload prometheus-alertmanager')
  }

  async #hears(regions: readonly string[], sinceSeconds: number): Promise<void> {
    const printed = `journalctl -q -o cat -u ${receiverUnit} --since @${sinceSeconds}`
    await until('the watchdog of each region comes through', async () => {
      const said = await this.#deployed.sh(this.#host, printed)
      return regions.every((code) => said.includes(`/watchdog-${code} HoldfastWatchdog ${code}\n`))
    })
  }

  /** As rendered again. @throws Error with what could not be undone; the rest is */
  async restore(): Promise<void> {
    const remove = `rm /etc/systemd/system/${receiverUnit}.service && systemctl daemon-reload`
    const undone = await Promise.allSettled([
      ...[...this.#rendered].map(async ([host, text]) => {
        await this.#deployed.write(host, settings, text)
        await this.#deployed.sh(host, 'systemctl reload prometheus-alertmanager')
      }),
      this.#deployed.sh(this.#host, `systemctl stop ${receiverUnit}; ${remove}`),
    ])
    const faults = undone.flatMap((end) => (end.status === 'rejected' ? [String(end.reason)] : []))
    if (faults.length > 0) throw new Error(faults.join('\n'))
  }
}
