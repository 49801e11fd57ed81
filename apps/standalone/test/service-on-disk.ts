/**
 * The service as a process on a disk that a test fills. It keeps its ports when it starts again.
 */
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import { freePorts } from '../../../infra/servers/ports.ts'
import { Filler } from '../../../test/support/small-disk.ts'
import { type ServiceProcess, startProcess } from './run.ts'

export class ServiceOnDisk {
  readonly dataDir: string
  readonly filler: Filler
  readonly settings: Record<string, string>
  #running: ServiceProcess

  private constructor(
    dataDir: string,
    filler: Filler,
    settings: Record<string, string>,
    running: ServiceProcess,
  ) {
    this.dataDir = dataDir
    this.filler = filler
    this.settings = settings
    this.#running = running
  }

  /**
   * Starts it; it is killed, and the disk is empty, when the test is over.
   * @param folder of its data on the disk
   * @param isOver called before it is killed
   */
  static async start(
    t: Test,
    { disk, folder, isOver = () => {} }: { disk: string; folder: string; isOver?: () => void },
    more: Record<string, string> = {},
  ): Promise<ServiceOnDisk> {
    const dataDir = join(disk, folder)
    const [api, upload, download, admin] = await freePorts(4)
    const settings = {
      HOLDFAST_API_PORT: `${api}`,
      HOLDFAST_UPLOAD_PORT: `${upload}`,
      HOLDFAST_DOWNLOAD_PORT: `${download}`,
      HOLDFAST_ADMIN_PORT: `${admin}`,
      ...more,
    }
    const running = await startProcess(dataDir, settings)
    const service = new ServiceOnDisk(dataDir, new Filler(disk), settings, running)
    t.teardown(async () => {
      isOver()
      await service.kill()
      await service.filler.empty()
      rmSync(dataDir, { recursive: true })
    })
    return service
  }

  get api(): string {
    return this.#running.api
  }

  get upload(): string {
    return this.#running.upload
  }

  get admin(): string {
    return this.#running.admin
  }

  /** The files that keep room for deletions on a full disk. */
  get ballasts(): [metadata: string, blobs: string] {
    return [join(this.dataDir, 'metadata/ballast'), join(this.dataDir, 'blobs/ballast')]
  }

  async kill(): Promise<void> {
    this.#running.process.kill('SIGKILL')
    await this.#running.ended
  }

  /** Again, after `kill`. */
  async startAgain(t: Test): Promise<void> {
    this.#running = await startProcess(this.dataDir, this.settings)
    t.match(this.#running.stdout(), 'Stop:', this.#running.stderr())
  }
}
