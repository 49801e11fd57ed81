import { readFileSync } from 'node:fs'

/** Of the whole: that of the repository's package.json, which `npm run release` raises. */
export const version: string = JSON.parse(
  readFileSync(new URL('../../../package.json', import.meta.url), 'utf8'),
).version
