/** The copies in use, for the comparison with the references beside the journal. */
import type { Reconcile } from '@holdfast/wire'
import type { Account } from '../account/account.ts'
import { usesPerLookMax } from '../bounds.ts'
import type { Outcome } from '../contract.ts'

const idBytes = 48
const nameBytes = 64

/**
 * An account that was never made uses nothing. The epoch of the position belongs to the runtime.
 */
export function usesOf({ record, tree }: Account, { uses, suspects }: Reconcile): Outcome {
  const { names, next } =
    uses === undefined
      ? { names: [], next: undefined }
      : tree.blobs.usedFrom(uses.row, { max: usesPerLookMax })
  const strangers = suspects.filter((name) => name.length === nameBytes && !isKnown(tree.blobs, name))
  const value = {
    used: names,
    strangers,
    next: next === undefined ? undefined : { epoch: uses?.epoch ?? 0, row: next },
    looked: names.length,
    missing: 0,
    orphaned: 0,
    mended: 0,
    tier: record?.tier ?? '',
  }
  return { kind: 'reply', reply: { result: { $case: 'reconcile', value } } }
}

function isKnown(blobs: Account['tree']['blobs'], name: Uint8Array): boolean {
  return blobs.isKnown({
    id: Buffer.from(name.subarray(0, idBytes)),
    incarnation: Buffer.from(name.subarray(idBytes)),
  })
}
