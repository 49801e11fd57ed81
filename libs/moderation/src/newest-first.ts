/** The first millisecond whose key would be longer: in the year 2286. */
const timeMax = 10 ** 13

/** Of acts and reports: their time by `newestFirst`, and 8 random bytes. */
export const idPattern = /^\d{13}-[0-9a-f]{16}$/

/** Keys that begin with it are in the order of time, the newest first. @param ms unix time */
export function newestFirst(ms: number): string {
  return String(timeMax - 1 - ms).padStart(13, '0')
}
