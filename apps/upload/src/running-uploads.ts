import { Refusal } from '@holdfast/http-kit'

/** How many uploads run at a time for each network, so that no client alone takes all stages of the store. */
export class RunningUploads {
  readonly #perNetworkMax: number
  readonly #byNetwork = new Map<string, number>()

  constructor({ perNetworkMax }: { perNetworkMax: number }) {
    this.#perNetworkMax = perNetworkMax
  }

  /** @returns call it once, when the upload has ended. @throws Refusal error-rateLimit */
  begin(network: string): () => void {
    const running = this.#byNetwork.get(network) ?? 0
    if (running >= this.#perNetworkMax) throw new Refusal('error-rateLimit', { retryAfter: 1 })
    this.#byNetwork.set(network, running + 1)
    return () => {
      const left = (this.#byNetwork.get(network) ?? 1) - 1
      if (left === 0) this.#byNetwork.delete(network)
      else this.#byNetwork.set(network, left)
    }
  }
}
