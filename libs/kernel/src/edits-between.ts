/** Number of characters to insert, delete or replace (Levenshtein's distance). */
export function editsBetween(one: string, other: string): number {
  let row = Array.from({ length: other.length + 1 }, (_, at) => at)
  for (const [at, character] of [...one].entries()) {
    const next = [at + 1]
    for (let to = 1; to <= other.length; to++)
      next[to] = Math.min(
        (row[to] as number) + 1,
        (next[to - 1] as number) + 1,
        (row[to - 1] as number) + (character === other[to - 1] ? 0 : 1),
      )
    row = next
  }
  return row[other.length] as number
}
