/** Users of a region who make folders, upload and download, until they are stopped. */
import { spawn } from 'node:child_process'
import { text } from 'node:stream/consumers'
import type { DeployedRegions } from './deployed.ts'
import type { Places, Repeats, Requests } from './load-program.ts'

export class Load {
  readonly #end: () => Promise<Requests>
  #ended: Promise<Requests> | undefined

  private constructor(end: () => Promise<Requests>) {
    this.#end = end
  }

  static async start(
    deployed: DeployedRegions,
    region: string,
    { repeats = 'none' }: { repeats?: Repeats } = {},
  ): Promise<Load> {
    const names = deployed.regions.find(({ code }) => code === region)?.names
    if (names === undefined) throw new Error(`there is no region ${region}`)
    const places: Places = { api: `https://${names.api}`, upload: `https://${names.upload}`, repeats }
    const [command, ...words] = deployed.wordsAtUsersOf(
      region,
      'test/long/regions/load-program.ts',
      JSON.stringify(places),
    )
    const child = spawn(command, words, { stdio: ['pipe', 'pipe', 'inherit'] })
    const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()))
    await new Promise<void>((resolve, reject) => {
      child.stdout.once('readable', () => resolve())
      void ended.then(() => reject(new Error('the load of users did not start')))
    })
    return new Load(async () => {
      child.stdin.end()
      const [, reported] = (await text(child.stdout)).trim().split('\n')
      if (reported === undefined) throw new Error('the load of users ended by itself')
      return JSON.parse(reported) as Requests
    })
  }

  /** @returns what became of their requests. @throws Error when they ended by themselves */
  stop(): Promise<Requests> {
    this.#ended ??= this.#end()
    return this.#ended
  }
}
