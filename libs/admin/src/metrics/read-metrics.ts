import { Counter, Gauge, type Registry } from 'prom-client'

/** Metrics without labels whose values are read at each scrape. */
export function readMetrics(registry: Registry) {
  const registers = [registry]
  return {
    gauge: (name: string, help: string, read: () => number) =>
      new Gauge({
        name,
        help,
        registers,
        collect() {
          this.set(read())
        },
      }),
    /** @param read a sum that only grows. */
    counter: (name: string, help: string, read: () => number) =>
      new Counter({
        name,
        help,
        registers,
        collect() {
          this.reset()
          this.inc(read())
        },
      }),
  }
}
