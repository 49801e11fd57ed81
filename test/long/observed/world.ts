/** A service under a small load, and a Prometheus that scrapes it. */
import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { shortenedTimes } from '../../../infra/observe/times.ts'
import { Standalone, type StandaloneOptions } from '../../support/standalone.ts'
import { later, Prometheus } from './prometheus.ts'

export interface WorldOptions {
  settings?: Record<string, string>
  /** How many times shorter ages are. */
  times?: number
  windowSeconds?: number
  bounds?: StandaloneOptions['bounds']
  /** Where its data lives; default: a directory of its own. */
  dataDir?: string
}

/** A day in about 4 s. */
const usualTimes = 20_000
const usualWindowSeconds = 20
/** Between two rounds of the load, so that a busy machine has time for the rest. */
const loadPauseMs = 60
const askTimeoutMs = 5_000

export class World {
  readonly service: Standalone
  readonly prometheus: Prometheus
  readonly #folder: string
  #loading: Promise<void> | undefined
  #ended = false
  /** The load's account. */
  guest = { token: '', folder: '', file: '' }

  private constructor(service: Standalone, prometheus: Prometheus, folder: string) {
    this.service = service
    this.prometheus = prometheus
    this.#folder = folder
  }

  static async start(options: WorldOptions = {}): Promise<World> {
    const folder = mkdtempSync(join(tmpdir(), 'holdfast-observed-'))
    const service = await Standalone.start({
      dataDir: options.dataDir ?? join(folder, 'data'),
      settings: {
        HOLDFAST_RECONCILE_SECONDS: '1',
        HOLDFAST_COLLECT_SECONDS: '1',
        HOLDFAST_SCRUB_SECONDS: '1',
        ...options.settings,
      },
      ...(options.bounds === undefined ? {} : { bounds: options.bounds }),
    })
    const { times = usualTimes, windowSeconds = usualWindowSeconds } = options
    const address = service.admin.replace('http://', '')
    const prometheus = await Prometheus.start(
      [{ process: 'holdfast', address, role: 'standalone' }],
      shortenedTimes({ times, windowSeconds }),
    )
    const world = new World(service, prometheus, folder)
    await world.#begin()
    return world
  }

  async stop(): Promise<void> {
    this.#ended = true
    await this.#loading
    await this.prometheus.stop()
    await this.service.terminate()
    rmSync(this.#folder, { recursive: true, force: true })
  }

  /** Uploads as the load's guest, or as a new one. @returns the answer's data, if it is one. */
  async upload(
    text: string | Buffer<ArrayBuffer>,
    { name = 'a.txt', token }: { name?: string; token?: string } = {},
  ): Promise<Record<string, string> | undefined> {
    const form = new FormData()
    form.append('file', new File([text], name))
    const answer = await this.ask(`${this.service.upload}/uploadfile`, {
      method: 'POST',
      body: form,
      ...(token === undefined ? {} : { headers: { authorization: `Bearer ${token}` } }),
    })
    return answer?.data
  }

  /** Undefined: no answer came. */
  async ask(
    url: string,
    request: RequestInit = {},
  ): Promise<{ status: string; data: Record<string, string> } | undefined> {
    try {
      const answer = await fetch(url, { signal: AbortSignal.timeout(askTimeoutMs), ...request })
      return (await answer.json()) as { status: string; data: Record<string, string> }
    } catch {
      return undefined
    }
  }

  get owner(): Record<string, string> {
    return { authorization: `Bearer ${this.guest.token}`, 'content-type': 'application/json' }
  }

  createFolder(name: string) {
    return this.ask(`${this.service.api}/contents/createfolder`, {
      method: 'POST',
      headers: this.owner,
      body: JSON.stringify({ parentFolderId: this.guest.folder, folderName: name }),
    })
  }

  /** Seconds until it fires; undefined: it did not within this time. */
  async seconds(alert: string, { within = 60, since = performance.now() } = {}): Promise<number | undefined> {
    while (performance.now() - since < within * 1000) {
      const passed = (performance.now() - since) / 1000
      if ((await this.prometheus.firedWithin(passed + 1)).has(alert)) return passed
      await later(200)
    }
    return undefined
  }

  async #begin(): Promise<void> {
    const first = await this.upload(randomBytes(3_000))
    if (first === undefined) throw new Error(`no upload is possible:\n${this.service.output}`)
    this.guest = {
      token: first.guestToken ?? '',
      folder: first.parentFolder ?? '',
      file: first.id ?? '',
    }
    this.#loading = this.#load()
  }

  /** Some of all kinds of calls. A service that does not answer is expected during a fault. */
  async #load(): Promise<void> {
    for (let round = 0; !this.#ended; round++) {
      await Promise.all([
        this.createFolder(`folder ${round}`),
        this.upload(randomBytes(2_000), { name: `${round}.bin`, token: this.guest.token }),
        this.#read(),
      ])
      await later(loadPauseMs)
    }
  }

  async #read(): Promise<void> {
    const { api } = this.service
    const headers = this.owner
    await this.ask(`${api}/accounts/getid`, { headers })
    const made = await this.ask(`${api}/contents/${this.guest.file}/directlinks`, { method: 'POST', headers })
    const link = made?.data?.directLink
    if (link === undefined) return
    const answer = await fetch(link, { signal: AbortSignal.timeout(askTimeoutMs) }).catch(() => undefined)
    await answer?.arrayBuffer().catch(() => undefined)
  }
}
