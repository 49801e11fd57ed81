/**
 * The schema, by numbered migrations. A released statement never changes; a new need is a new
 * migration. `schema.ts` runs them.
 */
export const migrations: readonly (readonly string[])[] = [
  [
    // One partition per account and home term. The statics are the fence; rows are flushes.
    `CREATE TABLE IF NOT EXISTS journal (
       account text, term int, seq bigint,
       epoch bigint static, head bigint static, chain blob static, owner text static, root blob static, root_through bigint static,
       row_epoch bigint, predecessor blob, bytes blob, checksum blob,
       PRIMARY KEY ((account, term), seq))`,
    // Immutable pages: checkpoints and large changes.
    `CREATE TABLE IF NOT EXISTS pages (account text, name text, bytes blob, PRIMARY KEY (account, name))`,
    // Routes, references, wake and active rows. A partition holds what is scanned together.
    `CREATE TABLE IF NOT EXISTS lookups (part text, key text, value blob, PRIMARY KEY (part, key))`,
    `CREATE TABLE IF NOT EXISTS counters (name text PRIMARY KEY, next bigint)`,
  ],
  [
    // The last row that was taken over from the previous term; it makes a partition of a later term
    // open.
    `ALTER TABLE journal ADD IF NOT EXISTS cut bigint static`,
  ],
]
