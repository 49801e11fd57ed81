/**
 * The requests of a run's clients, their answers and what they saw, by one monotonic clock (ms).
 */

/** A requested change. */
export interface Change {
  asked: number
  /** Infinity: the outcome is unknown. */
  answered: number
}

export interface MadeItem {
  name: string
  account: string
  made: Change
  /** Undefined: a folder. */
  file: { md5: string; size: number } | undefined
  /** Known once the creation was acknowledged. */
  id: string | undefined
  removed: Change | undefined
}

/** A folder whose description several clients overwrite, each time with another text. */
export interface Board {
  name: string
  account: string
  id: string
  writes: (Change & { value: string })[]
}

export interface SeenItem {
  id: string
  name: string
  description: string
  md5: string | undefined
  size: number | undefined
}

/** A listing of an account's folder. */
export interface FolderRead {
  account: string
  asked: number
  answered: number
  /** After the run, when everything has settled. */
  last: boolean
  items: SeenItem[]
}

export class History {
  readonly items: MadeItem[] = []
  readonly boards: Board[] = []
  readonly looks: FolderRead[] = []
  /** Whole downloads, by their content. */
  readonly bytes = { right: 0, wrong: [] as string[] }
  /** Refusals of allowed requests. */
  readonly refused: string[] = []
  /** Answers that name another item than an earlier answer under the same key. */
  readonly doubled: string[] = []
}
