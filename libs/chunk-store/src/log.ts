/** The part of a pino logger that the store uses. */
export interface Log {
  info(facts: object, message: string): void
  warn(facts: object, message: string): void
  error(facts: object, message: string): void
}

export const silentLog: Log = { info() {}, warn() {}, error() {} }
