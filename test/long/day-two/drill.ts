import type { Office } from './office.ts'

/** A procedure of `infra/OPERATING.md` on a running cluster. */
export interface Drill {
  name: string
  /** The cluster is not as it began: the next drill gets another one. */
  changesCluster?: boolean
  /** @returns lines of figures. @throws Error when a promise is broken */
  run: (office: Office, seed: number) => Promise<string[]>
}
