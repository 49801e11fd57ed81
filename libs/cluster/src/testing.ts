/** The servers of a cluster in memory, so that its processes start in one test process. */
import { MemoryBus } from '@holdfast/bus'
import { JournalFault, type WholeStore } from '@holdfast/journal'
import {
  MemoryJournalStore,
  MemoryLookupStore,
  MemoryMedium,
  MemoryWholeStore,
} from '@holdfast/journal/testing'
import type { RegionCode } from '@holdfast/kernel'
import { homeRegions } from './regions/region-order.ts'
import type { ServerConnector } from './servers/connect-servers.ts'
import type { KeptHome } from './servers/metadata.ts'

/** All processes that connect with the result share its bus, journals and lookups. */
export function memoryServers(regions: readonly RegionCode[]): ServerConnector {
  const order = { regions, founders: regions }
  const exchange = new MemoryBus()
  const lookups = new Map(regions.map((region) => [region, new MemoryLookupStore()]))
  const homes = new Map(regions.map((region) => [region, memoryHome()]))
  return async ({ config }) => {
    const bus = Object.assign(exchange.connect(), { up: true, flush: async () => {}, figures: noTraffic })
    const own = lookups.get(config.region) as MemoryLookupStore
    const isKept = (birth: RegionCode) => homeRegions(order, birth).includes(config.region)
    return {
      bus,
      openMetadata: async ({ journals }) => ({
        lookups,
        references: own,
        founders: order.founders,
        homes: new Map([...homes].filter(([birth]) => journals && isKept(birth))),
        nodes: () => [],
        close: async () => {},
      }),
      openWholeKeyspaces: () => ({
        lookups: async (region) =>
          new MemoryWholeStore({
            journals: undefined,
            lookups: lookups.get(region) as MemoryLookupStore,
          }),
        accounts: async (birth) => (homes.get(birth) as MemoryHome).whole,
        close: async () => {},
      }),
      close: () => bus.close(),
    }
  }
}

/** The bus in memory counts nothing. */
const noTraffic = () => ({
  requests: { answered: 0, timeout: 0, 'no responders': 0, cancelled: 0, busy: 0 },
  waiting: 0,
  linkLosses: 0,
})

interface MemoryHome extends KeptHome {
  whole: WholeStore
}

/** No second region has a copy of it. */
function memoryHome(): MemoryHome {
  const medium = new MemoryMedium()
  const away = new JournalFault('UNAVAILABLE', 'journals in memory have no second region')
  const journals = Object.assign(new MemoryJournalStore(medium), {
    replica: () => Promise.reject(away),
    takeAll() {
      throw away
    },
  })
  const lookups = new MemoryLookupStore(medium)
  return { journals, lookups, whole: new MemoryWholeStore({ journals, lookups }) }
}
