/**
 * The regions of an installation, in the order in which they came.
 *
 * Some things depend on how many regions there were when they were decided: which region backs up
 * another one, and which one decides about an e-mail address or makes the guest of a repeated
 * request. They stay where they are when a region is added. So they follow the founders, the
 * regions with which the installation was made, and each added region is backed up by the one that
 * came before it. Only a single founder gains something: the first added region backs it up.
 *
 * The order is rows, each claimed once and never changed: `setting/regions` names the founders,
 * `setting/regions-after/<code>` the region that was added after another one,
 * `setting/regions-joined/<code>` says that an added region has all rows of the others. An
 * installation of an earlier program has none of them: its founders are the data centres that its
 * keyspaces have.
 */
import { SettingsFault } from '@holdfast/config'
import { JournalFault, type LookupStore } from '@holdfast/journal'
import { type RegionCode, regionCodes } from '@holdfast/kernel'
import { foundersKey, regionAfterKey, regionJoinedKey } from '../row-keys.ts'
import { assertClusterFormat } from './cluster-format.ts'

export interface RegionOrder {
  /** All, the founders first. */
  regions: readonly RegionCode[]
  founders: readonly RegionCode[]
}

/** The region that also keeps the journals of another one; undefined where there is only one. */
export function backupOf({ regions, founders }: RegionOrder, birth: RegionCode): RegionCode | undefined {
  const place = founders.indexOf(birth)
  if (place < 0) return regions[regions.indexOf(birth) - 1]
  return founders.length > 1 ? founders[(place + 1) % founders.length] : regions[1]
}

/** The region itself and its backup. */
export function homeRegions(order: RegionOrder, birth: RegionCode): RegionCode[] {
  const backup = backupOf(order, birth)
  return backup === undefined ? [birth] : [birth, backup]
}

/** The region itself, then those that may hold further copies of its files: its backup first. */
export function copyOrder(order: RegionOrder, region: RegionCode): RegionCode[] {
  const { regions } = order
  const at = regions.indexOf(region)
  return [...new Set([...homeRegions(order, region), ...regions.slice(at), ...regions.slice(0, at)])]
}

/** Whether a row is of the order of regions. */
export function isOfOrder(key: string): boolean {
  return key === foundersKey || /^setting\/regions-(after|joined)\//.test(key)
}

export interface KnownOrder {
  founders: RegionCode[]
  /** In the order in which they came. */
  added: RegionCode[]
  /** Those of `added` that have joined. */
  joined: Set<RegionCode>
}

interface OrderOptions {
  /** The region whose own rows are used while the first region cannot be read. */
  region: RegionCode
  /** As the settings name them. */
  regions: readonly RegionCode[]
  /** Each region's rows, from its own data centre. */
  stores: ReadonlyMap<RegionCode, LookupStore>
  /** Regions whose data centres have the rows, as this region's data centre knows. */
  keeping: () => Promise<readonly string[]>
}

/**
 * The order as the rows have it; founders without a row get one. Own rows count first: they never
 * change, and the first region is asked for what has not arrived.
 * @throws JournalFault when the own rows cannot be read, or there is no row yet and the first
 *   region cannot be reached. @throws SettingsFault when the settings name other regions. @throws
 *   StartFault when a newer release has raised the format of the rows
 */
export async function knownOrder({ region, regions, stores, keeping }: OrderOptions): Promise<KnownOrder> {
  const [first = region] = regions
  const read = async (key: string) => {
    const own = await storeOf(stores, region).get(key)
    if (own !== undefined || first === region) return own
    return storeOf(stores, first)
      .get(key)
      .catch(() => undefined)
  }
  await assertClusterFormat(read)
  const founders = codesOf((await read(foundersKey)) ?? (await founded()))
  const added: RegionCode[] = []
  const joined = new Set<RegionCode>()
  while (added.length < regionCodes.length) {
    const [next] = codesOf(await read(regionAfterKey([...founders, ...added].at(-1) ?? first)))
    if (next === undefined) break
    added.push(next)
    if ((await read(regionJoinedKey(next))) !== undefined) joined.add(next)
  }
  return { founders, added, joined }

  /** Keyspaces get further data centres only after this row is there. */
  async function founded(): Promise<Uint8Array> {
    const kept = await keeping()
    const made = regions.filter((code) => kept.includes(code))
    if (made.length < kept.length)
      throw new SettingsFault([
        `HOLDFAST_REGIONS is ${regions.join()}, but this installation has ${kept.join()}`,
      ])
    return storeOf(stores, first).claim(foundersKey, Buffer.from(made.join()))
  }
}

/**
 * Whether a process may start with these settings. A region that is being added may still be
 * missing in them; one that has joined may not, because its accounts would be unknown here.
 * @throws SettingsFault
 */
export function assertOrder(
  { region, regions }: Pick<OrderOptions, 'region' | 'regions'>,
  { founders, added, joined }: KnownOrder,
): void {
  const known = [...founders, ...added]
  const needed = founders.length + added.findLastIndex((code) => joined.has(code)) + 1
  const begins = regions.every((code, at) => at >= known.length || code === known[at])
  if (!begins || regions.length < needed)
    throw new SettingsFault([
      `HOLDFAST_REGIONS is ${regions.join()}, but this installation has ${known.join()}: the order stays, and further regions are appended`,
    ])
  if (regions.length > known.length)
    throw new SettingsFault([
      `HOLDFAST_REGIONS names ${regions.slice(known.length).join()}, which this installation lacks: "npm run -s infra -- up" adds a region (infra/OPERATING.md)`,
    ])
  if (added.includes(region) && !joined.has(region))
    throw new SettingsFault([
      `${region} has not joined this installation yet: "npm run -s infra -- up" ends that (infra/OPERATING.md, "To add a region")`,
    ])
}

/**
 * Writes down that the regions at the end of the settings are added. @throws SettingsFault when
 * they are not at the end
 */
export async function addToOrder(
  { region, regions, stores }: Pick<OrderOptions, 'region' | 'regions' | 'stores'>,
  { founders, added }: KnownOrder,
): Promise<void> {
  const known = [...founders, ...added]
  const mismatch = () =>
    new SettingsFault([
      `the regions are ${regions.join()}, but this installation has ${known.join()}: the order stays, and further regions are appended`,
    ])
  if (known.some((code, at) => regions[at] !== code)) throw mismatch()
  for (const [at, code] of regions.entries()) {
    if (at < known.length) continue
    const key = regionAfterKey(regions[at - 1] ?? region)
    const row = await storeOf(stores, regions[0] ?? region).claim(key, Buffer.from(code))
    if (Buffer.from(row).toString() !== code) throw mismatch()
  }
}

function codesOf(row: Uint8Array | undefined): RegionCode[] {
  return row === undefined ? [] : (Buffer.from(row).toString().split(',') as RegionCode[])
}

function storeOf(stores: ReadonlyMap<RegionCode, LookupStore>, region: RegionCode): LookupStore {
  const store = stores.get(region)
  if (store === undefined) throw new JournalFault('UNAVAILABLE', `no way to the lookups of ${region}`)
  return store
}
