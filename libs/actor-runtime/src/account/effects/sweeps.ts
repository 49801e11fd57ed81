/**
 * Deletions by timers are reported once they are durable: a log line per folder, and in the
 * metrics.
 */
import { type Change, type Sweep, SweepReason } from '@holdfast/wire'
import type { Services } from '../../services.ts'

const reasons = {
  [SweepReason.EXPIRED]: 'expired',
  [SweepReason.BIN_OVER]: 'bin',
  [SweepReason.IDLE]: 'idle',
} as const

export function sweepsOf(change: Change): Sweep[] {
  return change.events.flatMap(({ event }) =>
    event?.$case === 'contentsDeleted' && event.value.sweep !== undefined ? [event.value.sweep] : [],
  )
}

export function reportSweeps(
  { log, metrics }: Pick<Services, 'log' | 'metrics'>,
  account: string,
  sweeps: readonly Sweep[],
): void {
  for (const { why, folders, heldUntil } of sweeps) {
    if (why !== SweepReason.EXPIRED && why !== SweepReason.BIN_OVER && why !== SweepReason.IDLE) continue
    const reason = reasons[why]
    for (const { id: folder, contents, bytes } of folders) {
      log.info({ account, folder, contents, bytes, why: reason, heldUntil }, 'a timer deleted contents')
      metrics.swept({ why: reason, contents })
    }
  }
}
