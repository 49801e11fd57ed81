/**
 * Compares a history with the promises: every acknowledged change is there, whole, once; one
 * without an answer is there whole or not at all; no value goes back; a look that began after an
 * acknowledged change sees it, whichever client made it.
 *
 * Each item has three successive states: not created, existing, deleted. It is a register of these
 * three values. Each board is a register of descriptions. See `register.ts`.
 */
import type { Board, FolderRead, History, MadeItem } from './history.ts'
import { contradictionsOf, type Read, type Write } from './register.ts'

export interface Verdict {
  /** Answered changes and looks. */
  operations: number
  acknowledged: number
  unknown: { happened: number; absent: number }
  /** Acknowledged, and not true when everything had settled. */
  lost: string[]
  /** Seen in an order that no order of the changes explains. */
  stale: string[]
  wrongBytes: string[]
  /** Two effects of one request, effects of none, refusals of what is allowed. */
  other: string[]
}

export function check(history: History): Verdict {
  const verdict: Verdict = {
    operations: history.looks.length + history.bytes.right + history.bytes.wrong.length,
    acknowledged: 0,
    unknown: { happened: 0, absent: 0 },
    lost: [],
    stale: [],
    wrongBytes: [...history.bytes.wrong],
    other: [...history.refused, ...history.doubled],
  }
  const looksOf = Map.groupBy(history.looks, ({ account }) => account)
  for (const looks of looksOf.values()) findStrangers(history, looks, verdict)
  for (const item of history.items)
    checkItem(item, viewsOf(looksOf.get(item.account) ?? [], item.name), verdict)
  for (const board of history.boards)
    checkBoard(board, viewsOf(looksOf.get(board.account) ?? [], board.name), verdict)
  verdict.operations += verdict.acknowledged
  return verdict
}

/** One look at one item. */
interface View {
  look: FolderRead
  seen: FolderRead['items'][number] | undefined
}

function viewsOf(looks: readonly FolderRead[], name: string): View[] {
  return looks.map((look) => ({ look, seen: look.items.find((item) => item.name === name) }))
}

/** Nothing exists that no client made, and nothing twice. */
function findStrangers(history: History, looks: readonly FolderRead[], { other }: Verdict): void {
  const known = new Set([...history.items, ...history.boards].map(({ name }) => name))
  const said = new Set<string>()
  for (const { items } of looks) {
    const names = new Set<string>()
    for (const { name } of items) {
      const fault = !known.has(name)
        ? `${name}: no client made it`
        : names.has(name)
          ? `${name} is there twice`
          : ''
      if (fault !== '' && !said.has(fault)) other.push(fault)
      said.add(fault)
      names.add(name)
    }
  }
}

function checkItem(item: MadeItem, views: readonly View[], verdict: Verdict): void {
  const { name, made, removed, file } = item
  const lastView = views.findLast(({ look }) => look.last)
  const there = lastView?.seen !== undefined
  tally(made, there || removed !== undefined, verdict)
  if (removed !== undefined) tally(removed, !there, verdict)
  for (const { seen } of views) {
    if (seen === undefined) continue
    if (item.id !== undefined && seen.id !== item.id)
      verdict.other.push(`${name} is ${seen.id}, and was acknowledged as ${item.id}`)
    if (file !== undefined && (seen.md5 !== file.md5 || seen.size !== file.size))
      verdict.wrongBytes.push(
        `${name} is listed with ${seen.size} bytes of md5 ${seen.md5}, sent were ${file.size} of ${file.md5}`,
      )
  }
  if (lastView !== undefined) {
    if (!there && made.answered < Infinity && removed === undefined) {
      verdict.lost.push(`${name}: its making was acknowledged, and it is not there`)
      return
    }
    if (there && removed !== undefined && removed.answered < Infinity) {
      verdict.lost.push(`${name}: its removal was acknowledged, and it is there`)
      return
    }
  }
  const writes: Write[] = [
    { value: 'not yet there', asked: -Infinity, answered: -Infinity },
    { value: 'there', ...made },
    ...(removed === undefined ? [] : [{ value: 'gone', ...removed }]),
  ]
  const reads = views.flatMap(({ look, seen }): Read[] => {
    const { asked, answered } = look
    if (seen !== undefined) return [{ value: 'there', asked, answered }]
    if (removed === undefined || answered < removed.asked)
      return [{ value: 'not yet there', asked, answered }]
    if (asked > made.answered) return [{ value: 'gone', asked, answered }]
    // It began before the creation was answered and ended after the removal was requested: it may
    // be absent for either reason.
    return []
  })
  for (const { value, other } of contradictionsOf(writes, reads))
    verdict.stale.push(
      `${name}: seen ${value}${other === undefined ? ', which it never was by then' : ` and ${other} in no possible order`}`,
    )
}

function checkBoard({ name, writes }: Board, views: readonly View[], verdict: Verdict): void {
  const lastView = views.findLast(({ look }) => look.last)
  const reads = views.flatMap(({ look: { asked, answered }, seen }): Read[] =>
    seen === undefined ? [] : [{ value: seen.description, asked, answered }],
  )
  const missing = views.filter(({ seen }) => seen === undefined).length
  if (missing > 0) verdict.lost.push(`${name}: it is missing in ${missing} of ${views.length} looks`)
  const seenValues = new Set(reads.map(({ value }) => value))
  for (const write of writes) tally(write, seenValues.has(write.value), verdict)
  const all: Write[] = [{ value: '', asked: -Infinity, answered: -Infinity }, ...writes]
  const contradictions = contradictionsOf(all, reads)
  const final = lastView?.seen?.description
  for (const { kind, value, other } of contradictions) {
    const said = `${name}: ${kind === 'never' ? `no client had written ${value}` : `${value} and ${other} in no possible order`}`
    const atRest = kind === 'order' && (final === value || final === other)
    if (atRest) verdict.lost.push(said)
    else verdict.stale.push(said)
  }
}

function tally({ answered }: { answered: number }, happened: boolean, verdict: Verdict): void {
  if (answered < Infinity) verdict.acknowledged++
  else if (happened) verdict.unknown.happened++
  else verdict.unknown.absent++
}
