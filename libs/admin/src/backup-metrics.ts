import { Gauge, type Registry } from 'prom-client'

/** When the last backup was taken, read at each scrape. */
export function backupMetrics(registry: Registry, lastBackupMs: () => number | undefined): void {
  new Gauge({
    name: 'holdfast_backup_last_timestamp_seconds',
    help: 'Moment of the last backup that this process completed, Unix time; 0 since the start of the process when there is none.',
    registers: [registry],
    collect() {
      this.set((lastBackupMs() ?? 0) / 1000)
    },
  })
}
