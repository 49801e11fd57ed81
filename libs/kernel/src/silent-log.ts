/** A log that drops everything, for tests and for parts without a log. */
export const silentLog = {
  isLevelEnabled: (_level: string): boolean => false,
  debug(_fields: object, _message: string): void {},
  info(_fields: object, _message: string): void {},
  warn(_fields: object, _message: string): void {},
  error(_fields: object, _message: string): void {},
}
