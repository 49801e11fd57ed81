/** The operator's pass over all storage nodes: each is asked on the bus, and told what it did. */
import type { Subscription } from '@holdfast/bus'
import { Fault } from '@holdfast/kernel'
import type { ClusterPart } from './join-cluster.ts'

type Figures = Record<string, unknown>
type Options = { graceMs?: number }

/** A large node looks at its copies for minutes. */
const collectMs = 9 * 60_000

function subjectOf(node: string): string {
  return `collect.${node}`
}

export class CollectFault extends Fault {
  override readonly name = 'CollectFault'
  readonly code = 'COLLECT'
  readonly category = 'unavailable'
}

/** Lets this node be asked. */
export function serveCollecting(
  { bus, config, log }: ClusterPart,
  collect: (options: Options) => Promise<Figures>,
): Subscription {
  return bus.serve(subjectOf(config.nodeName), async (message) => {
    try {
      return told({ figures: await collect(JSON.parse(Buffer.from(message).toString()) as Options) })
    } catch (error) {
      log.warn({ err: error }, 'collecting failed')
      return told({ fault: (error as Error).message })
    }
  })
}

/**
 * The sums of all nodes, and each node's own figures.
 * @throws CollectFault when a node did not do it; the others may have.
 */
export async function collectEverywhere({ bus, peers }: ClusterPart, options: Options): Promise<Figures> {
  const nodes = peers.beats().map(({ id }) => id)
  const each = await Promise.all(
    nodes.map(async (node): Promise<[string, Figures]> => {
      const question = Buffer.from(JSON.stringify(options))
      const answer = await bus.request(subjectOf(node), question, { timeoutMs: collectMs })
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

function told(value: { figures: Figures } | { fault: string }): Uint8Array {
  return Buffer.from(JSON.stringify(value))
}
