/** The first millisecond whose key would be longer: in the year 2286. */
const timeMax = 10 ** 13

/** Keys that begin with it are in the order of time, the newest first. @param ms unix time */
export function newestFirst(ms: number): string {
  return String(timeMax - 1 - ms).padStart(13, '0')
}
