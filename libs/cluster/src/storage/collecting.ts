/**
 * Collecting on all storage nodes, for the operator: each is asked on the bus for a pass, and
 * whether its own passes complete.
 */

import type { CollectorPause } from '@holdfast/blob-store'
import type { Bus } from '@holdfast/bus'
import { Fault, type Subscription } from '@holdfast/kernel'
import type { ClusterPart } from '../cluster-part.ts'
import { jsonAnswer } from '../json-answer.ts'
import { collectPausedSubjectOf, collectSubjectOf } from '../subjects.ts'

type Figures = Record<string, unknown>
type Options = { graceMs?: number }

/** A large node checks its copies for minutes. */
const collectMs = 9 * 60_000

/** Status does not wait for a node that does not answer. */
const askMs = 2_000

class CollectFault extends Fault {
  override readonly name = 'CollectFault'
  readonly code = 'COLLECT'
  readonly category = 'unavailable'
}

/** Answers requests to this node. */
export function serveCollecting(
  { bus, config, log }: Pick<ClusterPart, 'log'> & { bus: Bus; config: { nodeName: string } },
  {
    collect,
    paused,
  }: { collect: (options: Options) => Promise<Figures>; paused: () => CollectorPause | undefined },
): Subscription {
  const passes = bus.serve(collectSubjectOf(config.nodeName), async (message) => {
    try {
      return jsonAnswer<{ figures: Figures }>({
        figures: await collect(JSON.parse(Buffer.from(message).toString()) as Options),
      })
    } catch (error) {
      log.warn({ err: error }, 'collecting failed')
      return jsonAnswer<{ figures: Figures }>({ fault: (error as Error).message })
    }
  })
  const pauses = bus.serve(collectPausedSubjectOf(config.nodeName), async () =>
    Buffer.from(JSON.stringify({ paused: paused() })),
  )
  return {
    close() {
      passes.close()
      pauses.close()
    },
  }
}

/**
 * For the nodes that answer: whether unreferenced bytes are freed, and if not, where, since when
 * and why.
 */
export async function collectingStatus({
  bus,
  peers,
}: {
  bus: Bus
  peers: { beats(): readonly { id: string }[] }
}): Promise<{
  goesOn: boolean
  says: string
}> {
  const asked = peers.beats().map(async ({ id }) => {
    try {
      const answer = await bus.request(collectPausedSubjectOf(id), new Uint8Array(), { timeoutMs: askMs })
      const { paused } = JSON.parse(Buffer.from(answer).toString()) as {
        paused?: CollectorPause
      }
      return paused && { id, ...paused }
    } catch {
      return undefined
    }
  })
  const still = (await Promise.all(asked)).filter((node) => node !== undefined)
  if (still.length === 0) return { goesOn: true, says: 'goes on' }
  const nodes = still.map(({ id }) => id).join(', ')
  const since = new Date(Math.min(...still.map(({ sinceMs }) => sinceMs))).toISOString()
  const reasons = [...new Set(still.map(({ reason }) => reason))].join('; ')
  return { goesOn: false, says: `paused on ${nodes} since ${since}: ${reasons}` }
}

/**
 * The sums of all nodes, and each node's own figures.
 * @throws CollectFault when a node failed; the others may have done it.
 */
export async function collectEverywhere({ bus, peers }: ClusterPart, options: Options): Promise<Figures> {
  const nodes = peers.beats().map(({ id }) => id)
  const each = await Promise.all(
    nodes.map(async (node): Promise<[string, Figures]> => {
      const question = Buffer.from(JSON.stringify(options))
      const answer = await bus.request(collectSubjectOf(node), question, { timeoutMs: collectMs })
      const { figures, fault } = JSON.parse(Buffer.from(answer).toString()) as {
        figures?: Figures
        fault?: string
      }
      if (figures === undefined) throw new CollectFault(`${node}: ${fault}`)
      return [node, figures]
    }),
  )
  const sums: Record<string, number> = {}
  for (const [, figures] of each)
    for (const [name, value] of Object.entries(figures))
      if (typeof value === 'number') sums[name] = (sums[name] ?? 0) + value
  return { ...sums, nodes: Object.fromEntries(each) }
}
