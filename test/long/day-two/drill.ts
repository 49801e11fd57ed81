import type { Office } from './office.ts'

/** A procedure of `infra/OPERATING.md` on a running cluster. */
export interface Drill {
  name: string
  /** The cluster is not as it began: the next drill gets another one. */
  changesCluster?: boolean
  /** It begins with the code of an earlier commit, in a cluster of its own. */
  beginsEarlier?: boolean
  /**
   * @param wishes.accounts of a region that moves @param wishes.report figures of a long drill, as
   *   they come. @returns lines of figures. @throws Error when a promise is broken
   */
  run: (
    office: Office,
    seed: number,
    wishes: { accounts: number; report: (line: string) => void },
  ) => Promise<string[]>
}
