/** The fields of the messages in `proto`, as golden tests compare them. */
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

const proto = join(import.meta.dirname, '../../proto')

export interface ProtoFile {
  file: string
  /** `Message.name = number type`, one for each field and each name of an enum. */
  fields: string[]
}

export function protoFiles(pattern = '**/*.proto'): ProtoFile[] {
  return globSync(pattern, { cwd: proto })
    .sort()
    .map((file) => ({ file, fields: [...fieldsOf(readFileSync(join(proto, file), 'utf8'))] }))
}

/** The beginning or the end of what contains fields, or a field. */
const fieldForm =
  /(?:message|enum|oneof|service)\s+(\w+)\s*\{|(\})|((?:\w[\w.<>, ]*)?)\b(\w+)\s*=\s*(\d+)\s*[;[]/g

/** Each field and each name of an enum, below the names that contain it. */
function* fieldsOf(text: string): Generator<string> {
  const within: string[] = []
  for (const [, opens, closes, type = '', name = '', number = ''] of text
    .replace(/\/\/.*$/gm, '')
    .matchAll(fieldForm))
    if (opens !== undefined) within.push(opens)
    else if (closes !== undefined) within.pop()
    else {
      const kind = type.trim().replaceAll(/\s+/g, ' ')
      yield `${within.join('.')}.${name} = ${number} ${kind}`.trim()
    }
}

/** What accounts leave on disks: messages of journals and checkpoints, and those within them. */
export function storedFields(): string[] {
  const files = protoFiles('holdfast/account/v1/*.proto')
  const fieldsOfMessage = Map.groupBy(
    files.flatMap(({ fields }) => fields),
    messageOf,
  )
  const stored = new Set(
    files
      .filter(({ file }) => /\/(event|checkpoint)\.proto$/.test(file))
      .flatMap(({ fields }) => fields.map(messageOf)),
  )
  for (const message of stored)
    for (const field of fieldsOfMessage.get(message) ?? [])
      for (const [word] of field.slice(field.indexOf(' = ')).matchAll(/[A-Z]\w+/g))
        if (fieldsOfMessage.has(word)) stored.add(word)
  return [...stored].sort().flatMap((message) => fieldsOfMessage.get(message) ?? [])
}

function messageOf(field: string): string {
  return field.slice(0, field.indexOf('.'))
}
