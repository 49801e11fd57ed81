/** What is in use, for the comparison with the references and routes beside the journal. */
import { blobIdBytes, incarnationBytes } from '@holdfast/kernel'
import type { Reconcile } from '@holdfast/wire'
import type { Account } from '../account/account.ts'
import { codesPerLookMax, usesPerLookMax } from '../bounds.ts'
import type { CodeBlock, Outcome, TreeSettings } from '../contract.ts'

const nameBytes = blobIdBytes + incarnationBytes

/**
 * An account that was never made uses nothing. The epoch of the position belongs to the runtime.
 */
export function usesOf({ record, tree }: Account, { uses, suspects }: Reconcile): Outcome {
  const { names, next } =
    uses === undefined
      ? { names: [], next: undefined }
      : tree.blobs.usedFrom(uses.row, { max: usesPerLookMax })
  const unknown = suspects.filter((name) => name.length === nameBytes && !isKnown(tree.blobs, name))
  const value = {
    used: names,
    strangers: unknown,
    next: next === undefined ? undefined : { epoch: uses?.epoch ?? 0, row: next, content: 0 },
    looked: names.length,
    missing: 0,
    orphaned: 0,
    mended: 0,
    routes: 0,
    missingRoutes: 0,
    tier: record?.tier ?? '',
  }
  return { kind: 'reply', reply: { result: { $case: 'reconcile', value } } }
}

/** See `AccountState`. */
export function codeBlocksOf(
  tree: Account['tree'],
  from: number,
  { codes, legacyCodes }: Pick<TreeSettings, 'codes' | 'legacyCodes'>,
): { blocks: CodeBlock[]; next: number | undefined } {
  const { end } = tree.contents
  const found: string[] = []
  let row = from
  for (; row < end && found.length < codesPerLookMax; row++) found.push(tree.codeOf(row) ?? '')
  const blocks = [codes, legacyCodes].flatMap((of): CodeBlock[] => {
    const counters = of.countersOf(found.filter((code) => code.length === of.length))
    const own = new Set(counters.map((counter) => Math.floor(counter / of.perBlock)))
    return [...own].map((block) => ({ length: of.length, block }))
  })
  return { blocks, next: row < end ? row : undefined }
}

function isKnown(blobs: Account['tree']['blobs'], name: Uint8Array): boolean {
  return blobs.isKnown({
    id: Buffer.from(name.subarray(0, blobIdBytes)),
    incarnation: Buffer.from(name.subarray(blobIdBytes)),
  })
}
