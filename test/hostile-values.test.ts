/**
 * Hostile values in every place of every operation that the OpenAPI document names: a parameter of
 * the path, the query and the body, the token, the body as a whole, a field of an upload. The
 * answer is always an envelope with a status that the document lists, and never a fault of
 * the service. A new operation or parameter is tried without a change here.
 *
 * The daily run gives each place a third of the values: each value is tried at each third place.
 */
import t from 'tap'
import { compareWithDocuments } from './acceptance/compared.ts'
import { type HttpAnswer, type RequestOptions, send } from './acceptance/http.ts'
import { hostsOf } from './acceptance/instances.ts'
import { multipart } from './acceptance/multipart.ts'
import { sizeOf } from './forms.ts'
import { Standalone } from './support/standalone.ts'

interface Schema {
  enum?: unknown[]
  anyOf?: Schema[]
  properties?: Record<string, Schema>
  required?: string[]
}

interface Operation {
  method: string
  path: string
  operationId: string
  parameters?: { name: string; in: string; required?: boolean; schema?: Schema }[]
  requestBody?: { content: Record<string, { schema: Schema }> }
}

interface Account {
  id: string
  token: string
  rootFolder: string
}

const deep = (levels: number) => `${'['.repeat(levels)}${']'.repeat(levels)}`
const texts = [
  '',
  ' ',
  '.',
  '..',
  '../../etc/passwd',
  '/',
  '\\',
  '\0',
  'a\0b',
  'a\r\nb: c',
  '\t',
  '\u007f',
  '\u202e',
  '\u2028',
  '\ufeff',
  '\ud800',
  'e\u0301'.repeat(300),
  '👩‍👩‍👧‍👦',
  '-0',
  '1e3',
  '0x10',
  '1.5',
  'NaN',
  'Infinity',
  '9007199254740993',
  '99999999999999999999',
  '0'.repeat(400),
  'null',
  'undefined',
  'true',
  '__proto__',
  'constructor',
  'toString',
  "' OR 1=1 --",
  '<script>alert(1)</script>',
  '#{7*7}',
  '%00',
  '%',
  '*',
  'a@b',
  `${'a'.repeat(254)}@example.org`,
  '::ffff:127.0.0.1/129',
  '00000000-0000-0000-0000-000000000000',
  ','.repeat(2_000),
  'a,'.repeat(2_000),
  'a'.repeat(10_000),
]
const values: unknown[] = [
  ...texts,
  null,
  true,
  false,
  0,
  -0,
  -1,
  1.5,
  1e308,
  2 ** 53,
  -(2 ** 53),
  [],
  {},
  [null],
  [[]],
  [''],
  ['\ud800'],
  ['a', 1, {}],
  Array.from({ length: 1_000 }, () => 'a'),
  { length: 3 },
  { toString: 'a' },
  { a: { b: { c: [] } } },
  'b'.repeat(200_000),
]
const bodies = [
  '',
  ' ',
  'null',
  'true',
  '0',
  '""',
  '[]',
  '[{}]',
  '{',
  '{"a":}',
  '{"__proto__":{"token":"x"}}',
  '{"constructor":{"prototype":{}}}',
  '{"token":null}',
  '{"token":{}}',
  '{"token":["a"]}',
  '{"a":1e999}',
  '{"a":"\\ud800"}',
  '\ufeff{}',
  `{"a":${deep(50_000)}}`,
  deep(100_000),
  `{${Array.from({ length: 5_000 }, (_, at) => `"k${at}":0`).join()}}`,
  `{"a":"${'x'.repeat(300_000)}"}`,
  Buffer.from([0x7b, 0x22, 0xff, 0xfe, 0x22, 0x3a, 0x31, 0x7d]),
]
const types = [
  'application/json',
  'application/json; charset=utf-16',
  'application/x-www-form-urlencoded',
  'multipart/form-data',
  'text/plain',
  'a',
]
/** They stand in a URL as they are. */
const rawTexts = [
  '%',
  '%ff',
  '%c0%af',
  '%00',
  '%ed%a0%80',
  '%2e%2e%2f',
  '%252e',
  '[',
  '"',
  '|',
  '^',
  '`',
  '{}',
]

const everyNth = sizeOf('hostileEveryNth')

t.test('hostile values get an envelope with a documented status', async (t) => {
  const service = await Standalone.start()
  t.teardown(() => service.stop())
  const operations = await operationsOf(service)
  const faults = new Set<string>()
  const counts = await Promise.all(
    operations.map(async (operation, place) => {
      const trial = await Trial.of(service, operation, {
        place,
        fault: (fault) => faults.add(`${operation.operationId}: ${fault}`),
      })
      return trial.run()
    }),
  )
  const { undocumented } = await compareWithDocuments([hostsOf(service)])
  t.strictSame([...faults], [], 'each answer is an envelope')
  t.strictSame(undocumented, [], 'with a status that the document lists')
  const sent = counts.reduce((sum, count) => sum + count, 0)
  t.ok(sent > (100 / everyNth) * operations.length, `${sent} requests to ${operations.length} operations`)
  const lives = await send(`${service.admin}/livez`)
  t.equal(lives.code, 200, 'the process is well')
})

async function operationsOf(service: Standalone): Promise<Operation[]> {
  const { body } = await send(`${service.api}/openapi.json`)
  const { paths } = JSON.parse(body.toString()) as { paths: Record<string, Record<string, Operation>> }
  return Object.entries(paths).flatMap(([path, { servers: _, ...methods }]) =>
    Object.entries(methods).map(([method, operation]) => ({
      ...operation,
      method: method.toUpperCase(),
      path,
    })),
  )
}

/** One operation. After a call that succeeds, the next one has an account of its own. */
class Trial {
  readonly #service: Standalone
  readonly #operation: Operation
  readonly #fault: (text: string) => void
  #account: Account
  #valid: Record<string, unknown>
  #sent = 0
  /** Places that got values; its start differs between operations. */
  #place: number

  private constructor(
    service: Standalone,
    operation: Operation,
    { place, fault }: { place: number; fault: (text: string) => void },
    account: Account,
    valid: Record<string, unknown>,
  ) {
    this.#service = service
    this.#operation = operation
    this.#place = place
    this.#fault = fault
    this.#account = account
    this.#valid = valid
  }

  static async of(
    service: Standalone,
    operation: Operation,
    options: { place: number; fault: (text: string) => void },
  ): Promise<Trial> {
    const { account, valid } = await accountWithContents(service)
    return new Trial(service, operation, options, account, valid)
  }

  /** Selects the values that the next place gets. */
  #some<Value>(all: readonly Value[]): Value[] {
    const place = this.#place++
    return all.filter((_, at) => (at + place) % everyNth === 0)
  }

  /** @returns requests sent */
  async run(): Promise<number> {
    const { parameters = [], requestBody } = this.#operation
    for (const { name, in: place } of parameters)
      for (const text of this.#some(place === 'header' ? headerTexts() : texts))
        await this.#call({ [name]: text })
    for (const { name, in: place } of parameters)
      if (place !== 'header') for (const text of this.#some(rawTexts)) await this.#call({ [name]: raw(text) })
    for (const token of this.#some(headerTexts())) await this.#call({}, { authorization: `Bearer ${token}` })
    if (this.#operation.method === 'GET') return this.#sent
    const schema = requestBody?.content['application/json']?.schema
    for (const fields of variantsOf(schema))
      for (const name of [...Object.keys(schema?.properties ?? {}), 'token', 'another'])
        for (const value of this.#some(values)) await this.#call({ ...fields, [name]: value })
    for (const type of types)
      for (const body of this.#some(bodies)) await this.#call({}, { 'content-type': type }, body)
    for (const name of Object.keys(requestBody?.content['multipart/form-data']?.schema.properties ?? {}))
      for (const text of this.#some(texts)) await this.#upload(name, text)
    return this.#sent
  }

  async #upload(name: string, text: string): Promise<void> {
    const file = { name: 'file', filename: name === 'file' ? text : 'a.txt', content: 'a' }
    const form = multipart(name === 'file' ? [file] : [{ name, value: text }, file])
    await this.#call({}, { 'content-type': form.contentType }, form.body)
  }

  /** @param given values by the names of parameters and members; the others are valid ones */
  async #call(
    given: Record<string, unknown>,
    headers: Record<string, string> = {},
    body: string | Buffer = this.#bodyWith(given),
  ): Promise<void> {
    const { method } = this.#operation
    const named = (this.#operation.parameters ?? []).filter(({ in: place }) => place === 'header')
    const sent: RequestOptions = {
      method,
      headers: {
        authorization: `Bearer ${this.#account.token}`,
        ...(method === 'GET' ? {} : { 'content-type': 'application/json' }),
        ...Object.fromEntries(
          named.flatMap(({ name }) => (name in given ? [[name, String(given[name])]] : [])),
        ),
        ...headers,
      },
      ...(method === 'GET' ? {} : { body }),
    }
    const url = this.#urlWith(given)
    this.#sent += 1
    let received: HttpAnswer
    try {
      received = await send(url, sent)
    } catch (error) {
      this.#fault(`${(error as Error).message} for ${JSON.stringify(given).slice(0, 80)}`)
      return
    }
    const fault = faultOfAnswer(received)
    if (fault !== undefined)
      this.#fault(`${fault} for ${url.slice(0, 120)} ${(JSON.stringify(given) ?? '').slice(0, 80)}`)
    if (received.code === 200 && method !== 'GET')
      ({ account: this.#account, valid: this.#valid } = await accountWithContents(this.#service))
  }

  #urlWith(given: Record<string, unknown>): string {
    const { path, parameters = [] } = this.#operation
    const text = (name: string) => {
      const value = name in given ? given[name] : this.#validOf(name)
      return value instanceof Raw ? value.text : encodeURIComponent(wellFormed(String(value)))
    }
    const query = parameters
      .filter(({ name, in: place, required }) => place === 'query' && (required === true || name in given))
      .map(({ name }) => `${name}=${text(name)}`)
      .join('&')
    const host = path === '/uploadfile' ? this.#service.upload : this.#service.api
    return `${host}${path.replace(/\{(\w+)\}/g, (_, name: string) => text(name))}${query && '?'}${query}`
  }

  #bodyWith(given: Record<string, unknown>): string {
    const schema = this.#operation.requestBody?.content['application/json']?.schema
    const valid = (schema?.required ?? []).map((name) => [name, this.#validOf(name)])
    return JSON.stringify({ ...Object.fromEntries(valid), ...given })
  }

  #validOf(name: string): unknown {
    const value = this.#valid[name]
    if (value === undefined) throw new Error(`${name} is required: this test needs a valid value of it`)
    return value
  }
}

/** RequestOptions in a URL without escapes. */
class Raw {
  readonly text: string
  constructor(text: string) {
    this.text = text
  }
  toJSON(): string {
    return this.text
  }
}

function raw(text: string): Raw {
  return new Raw(text)
}

/**
 * For the first member that has a list of valid values: one variant for each value. With an update,
 * the attribute decides which values are valid.
 */
function variantsOf(schema: Schema | undefined): Record<string, unknown>[] {
  const [name, member] = Object.entries(schema?.properties ?? {}).find(([, { enum: listed }]) => listed) ?? []
  return name === undefined ? [{}] : (member?.enum ?? []).map((value) => ({ [name]: value }))
}

/** Those that a client library sends. */
function headerTexts(): string[] {
  return texts.filter((text) => /^[\t\x20-\x7e\x80-\xff]*$/.test(text))
}

function wellFormed(text: string): string {
  return text.toWellFormed()
}

/** @returns undefined: an envelope of the contract, and no fault of the service */
function faultOfAnswer({ code, headers, body }: HttpAnswer): string | undefined {
  const text = body.toString()
  if (code >= 500) return `${code} ${text.slice(0, 80)}`
  if (headers['content-type']?.startsWith('application/json') !== true) return `${code} without JSON`
  let envelope: { status?: unknown; data?: unknown }
  try {
    envelope = JSON.parse(text) as typeof envelope
  } catch {
    return `${code} with bad JSON ${text.slice(0, 80)}`
  }
  const isEnvelope =
    code === 200
      ? envelope.status === 'ok' && 'data' in envelope
      : typeof envelope.status === 'string' && Object.keys(envelope).length === 1
  return isEnvelope ? undefined : `${code} ${text.slice(0, 80)}`
}

async function accountWithContents(service: Standalone) {
  const account = await call<Account>(service, 'POST', '/accounts')
  await call(service, 'POST', `${service.admin}/admin/accounts/${account.id}`, undefined, { tier: 'premium' })
  const made = (path: string, json: object) =>
    call<{ id: string }>(service, 'POST', path, account.token, json)
  const folder = await made('/contents/createFolder', { parentFolderId: account.rootFolder })
  const link = await made(`/contents/${folder.id}/directlinks`, {})
  return {
    account,
    valid: {
      accountId: account.id,
      attribute: 'name',
      attributeValue: 'a',
      contentId: folder.id,
      contentsId: folder.id,
      directLinkId: link.id,
      email: 'ann@example.org',
      folderId: account.rootFolder,
      mailed: 'a',
      parentFolderId: account.rootFolder,
      recycleBin: true,
      searchedString: 'a',
    },
  }
}

async function call<Data>(
  service: Standalone,
  method: string,
  path: string,
  token?: string,
  json?: object,
): Promise<Data> {
  const { code, body } = await send(path.startsWith('/') ? service.api + path : path, {
    method,
    headers: {
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
      ...(json === undefined ? {} : { 'content-type': 'application/json' }),
    },
    ...(json === undefined ? {} : { body: JSON.stringify(json) }),
  })
  if (code !== 200) throw new Error(`${method} ${path}: ${code} ${body}`)
  return (JSON.parse(body.toString()) as { data: Data }).data
}
