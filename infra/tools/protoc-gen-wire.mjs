/**
 * The plugin of `buf generate`: ts-proto, and then
 *
 * - every field of a message is mandatory. An absent optional field is `undefined`; one that is
 *   left out is a type error;
 * - a decoder chooses by the whole tag, number and wire type at once, as ts-proto's does in two
 *   steps;
 * - the decoder of a message that cannot contain itself counts no depth.
 */
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'

const require = createRequire(import.meta.url)
const plugin = require.resolve('ts-proto/protoc-gen-ts_proto')
// Its own version of them.
const { CodeGeneratorRequest, CodeGeneratorResponse } = createRequire(plugin)('ts-proto-descriptors')

const input = readFileSync(0)
const recursive = recursiveMessages(CodeGeneratorRequest.decode(input))
const response = CodeGeneratorResponse.decode(
  execFileSync(process.execPath, [plugin], { input, maxBuffer: 64 * 1024 ** 2 }),
)
for (const file of response.file)
  file.content = file.content
    .replace(/^(\s+\w+)\?:/gm, '$1:')
    .replace(/^ {2}decode\(.*\): (\w+) \{\n[\s\S]*?^ {2}\},$/gm, plainDecoder)
process.stdout.write(CodeGeneratorResponse.encode(response).finish())

/** @param {string} decoder as ts-proto writes it @param {string} message its name */
function plainDecoder(decoder, message) {
  const guarded =
    /^ {4}const previousRecursionDepth[\s\S]*?^ {4}try \{\n([\s\S]*?)^ {4}\} finally \{\n.*\n {4}\}\n/m
  const plain = (recursive.has(message) ? decoder : decoder.replace(guarded, (_, body) => outdented(body)))
    .replace('switch (tag >>> 3) {', 'switch (tag) {')
    // A repeated number comes one by one or packed.
    .replace(
      /^( +)case \d+: \{\n +if \(tag === (\d+)\) \{\n([\s\S]*?)\n\n +continue;\n +\}\n\n +if \(tag === (\d+)\) \{\n([\s\S]*?)\n\n +continue;\n +\}\n\n +break;\n +\}$/gm,
      (_, at, one, push, packed, loop) =>
        [caseOf(at, one, push), caseOf(at, packed, loop.replace(/\n\n/g, '\n'))].join('\n'),
    )
    .replace(/^( +)case \d+: \{\n +if \(tag !== (\d+)\) \{\n +break;\n +\}\n\n/gm, '$1case $2: {\n')
  if (/tag >>> 3|tag !== |tag === [1-9]/.test(plain) || /Recursion/.test(plain) !== recursive.has(message))
    throw new Error(`not understood: ${plain}`)
  return plain
}

/** @param {string} body one level deeper than that of the case */
function caseOf(at, tag, body) {
  return `${at}case ${tag}: {\n${outdented(body)}\n${at}  continue;\n${at}}`
}

function outdented(lines) {
  return lines.replace(/^ {2}/gm, '')
}

/** The messages that can contain themselves, by the names of their types. */
function recursiveMessages({ protoFile }) {
  const parts = new Map()
  const enter = (prefix, { name, field, nestedType }) => {
    parts.set(
      `${prefix}.${name}`,
      field.map(({ typeName }) => typeName),
    )
    for (const nested of nestedType) enter(`${prefix}.${name}`, nested)
  }
  for (const file of protoFile) for (const message of file.messageType) enter(`.${file.package}`, message)
  const partsOf = (message, found = new Set()) => {
    for (const part of parts.get(message) ?? [])
      if (parts.has(part) && !found.has(part)) partsOf(part, found.add(part))
    return found
  }
  const within = [...parts.keys()].filter((message) => partsOf(message).has(message))
  return new Set(within.map((message) => message.replace(/^[.a-z0-9]*\./, '').replaceAll('.', '_')))
}
