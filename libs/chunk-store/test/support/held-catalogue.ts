/** Opens the catalogue of a store and keeps it, until it is killed. */
import { silentLog } from '@holdfast/kernel'
import type { EngineName } from '../../src/catalogue/engines/engine.ts'
import { openCatalogue } from '../../src/start/open-catalogue.ts'

const [, , path = '', engine] = process.argv
await openCatalogue(path, silentLog, { engine: engine as EngineName })
console.log('open')
