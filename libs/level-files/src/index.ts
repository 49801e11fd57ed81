export { logDamage } from './log.ts'
export { tableDamage } from './table.ts'
