/**
 * The plugin of `buf generate`: ts-proto, and then every field of a message is mandatory. An absent
 * optional field is `undefined`; one that is left out is a type error.
 */
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'

const require = createRequire(import.meta.url)
const plugin = require.resolve('ts-proto/protoc-gen-ts_proto')
// Its own version of it.
const { CodeGeneratorResponse } = createRequire(plugin)('ts-proto-descriptors')

const response = CodeGeneratorResponse.decode(
  execFileSync(process.execPath, [plugin], { input: readFileSync(0), maxBuffer: 64 * 1024 ** 2 }),
)
for (const file of response.file) file.content = file.content.replace(/^(\s+\w+)\?:/gm, '$1:')
process.stdout.write(CodeGeneratorResponse.encode(response).finish())
