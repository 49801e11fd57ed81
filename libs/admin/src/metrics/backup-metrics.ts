import { Gauge, type Registry } from 'prom-client'

/** When the last backup was taken, read at each scrape. */
export function backupMetrics(registry: Registry, lastBackupMs: () => number | undefined): void {
  new Gauge({
    name: 'holdfast_backup_last_timestamp_seconds',
    help: 'Time of the last backup that this process completed, Unix seconds; 0: none since its start.',
    registers: [registry],
    collect() {
      this.set((lastBackupMs() ?? 0) / 1000)
    },
  })
}
