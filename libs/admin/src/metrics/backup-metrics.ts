import { Gauge, type Registry } from 'prom-client'

/** When the last backup was taken, by this process or before its start. */
export function backupMetrics(registry: Registry, lastBackupMs: () => number | undefined): void {
  new Gauge({
    name: 'holdfast_backup_last_timestamp_seconds',
    help: 'Time of the last complete backup, Unix seconds; 0: none. In a cluster of any process, up to 10 min late.',
    registers: [registry],
    collect() {
      this.set((lastBackupMs() ?? 0) / 1000)
    },
  })
}
