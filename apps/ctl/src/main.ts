import { readFileSync } from 'node:fs'
import { ctl } from './ctl.ts'

process.exitCode = await ctl(process.argv.slice(2), {
  env: process.env,
  readSecret: (path) => readFileSync(path, 'utf8'),
  print: (line) => console.log(line),
  complain: (line) => console.error(line),
})
