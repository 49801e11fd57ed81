/** The OpenAPI document as a page for people. */
interface Schema {
  type?: string | string[]
  description?: string
  properties?: Record<string, Schema>
  required?: string[]
  default?: unknown
  enum?: string[]
  minimum?: number
  maximum?: number
  anyOf?: Schema[]
  items?: Schema
}

interface DocumentedEndpoint {
  summary?: string
  description?: string
  tags?: string[]
  parameters?: { name: string; in: string; required?: boolean; schema?: Schema; description?: string }[]
  requestBody?: { content?: Record<string, { schema?: Schema }> }
  responses?: Record<string, { content?: Record<string, { schema?: Schema }> }>
  security?: object[]
}

interface Document {
  info: { title: string; version: string; description?: string | undefined }
  paths?: Record<string, Record<string, DocumentedEndpoint>>
}

const methods = ['get', 'post', 'put', 'delete']

export function documentationPage(openapi: unknown): string {
  const document = openapi as Document
  const groups = new Map<string, string[]>()
  for (const [path, item] of Object.entries(document.paths ?? {})) {
    for (const method of methods) {
      const endpoint = item[method]
      if (endpoint === undefined) continue
      const group = endpoint.tags?.[0] ?? 'Other'
      groups.set(group, [...(groups.get(group) ?? []), endpointHtml(method, path, endpoint)])
    }
  }
  const sections = [...groups].map(([group, endpoints]) => `<h2>${text(group)}</h2>${endpoints.join('')}`)
  return `<!doctype html><html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width"><title>${text(document.info.title)} API</title>
<style>${style}</style></head><body><main><h1>${text(document.info.title)} API</h1>
<p>${text(document.info.description ?? '')}</p><p><a href="/openapi.json">openapi.json</a></p>
${sections.join('\n')}</main></body></html>`
}

const style = `
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif }
main { max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
details { border: 1px solid color-mix(in srgb, currentColor 20%, transparent); border-radius: 6px; margin: .5rem 0; padding: .5rem .75rem }
summary { cursor: pointer; overflow-wrap: anywhere }
b { display: inline-block; min-width: 4.5rem; font-family: ui-monospace, monospace }
code { font-family: ui-monospace, monospace }
.about { opacity: .7; margin-left: .5rem }
table { border-collapse: collapse; width: 100%; margin: .25rem 0 .75rem }
td, th { text-align: left; vertical-align: top; padding: .2rem .75rem .2rem 0 }
h3 { margin: .75rem 0 0; font-size: 1rem }`

function endpointHtml(method: string, path: string, endpoint: DocumentedEndpoint): string {
  const parameters = (endpoint.parameters ?? []).map((parameter) =>
    row(parameter.name, `${parameter.in}${parameter.required === true ? ', required' : ''}`, {
      ...parameter.schema,
      ...(parameter.description === undefined ? {} : { description: parameter.description }),
    }),
  )
  const [bodyType, body] = Object.entries(endpoint.requestBody?.content ?? {})[0] ?? []
  const refusals = Object.entries(endpoint.responses ?? {}).flatMap(([code, { content }]) => {
    const statuses = content?.['application/json']?.schema?.properties?.status?.enum ?? []
    return code === '200' ? [] : [refusalRow(code, statuses)]
  })
  const data = Object.values(endpoint.responses?.['200']?.content ?? {})[0]?.schema?.properties?.data
  return `<details><summary><b>${method.toUpperCase()}</b> <code>${text(path)}</code><span class="about">${text(
    endpoint.summary ?? '',
  )}</span></summary>
${endpoint.description ? `<p>${text(endpoint.description)}</p>` : ''}
${endpoint.security === undefined ? '<p>No token needed.</p>' : ''}
${table('Parameters', parameters)}${table(`Body (${bodyType})`, rowsOf(body?.schema))}${table('data', rowsOf(data))}
${data?.description ? `<p>data: ${text(data.description)}</p>` : ''}${table('Refusals', refusals)}</details>`
}

function refusalRow(code: string, statuses: readonly string[]): string {
  return `<tr><td>${text(code)}</td><td><code>${text(statuses.join(', '))}</code></td></tr>`
}

function rowsOf(schema: Schema | undefined): string[] {
  return Object.entries(schema?.properties ?? {}).map(([name, property]) =>
    row(name, schema?.required?.includes(name) ? 'required' : '', property),
  )
}

function row(name: string, place: string, schema: Schema): string {
  const range =
    schema.minimum === undefined && schema.maximum === undefined
      ? ''
      : ` ${schema.minimum ?? ''}…${schema.maximum ?? ''}`
  const preset = schema.default === undefined ? '' : `; default ${JSON.stringify(schema.default)}`
  return `<tr><td><code>${text(name)}</code></td><td>${text(typeOf(schema) + range)}</td><td>${text(place)}</td><td>${text(
    (schema.description ?? '') + preset,
  )}</td></tr>`
}

function typeOf(schema: Schema): string {
  if (schema.anyOf !== undefined) return schema.anyOf.map(typeOf).join(' or ')
  if (schema.type === 'array') return `array of ${typeOf(schema.items ?? {})}`
  return [schema.type ?? 'any'].flat().join(' or ')
}

function table(title: string, rows: string[]): string {
  return rows.length === 0 ? '' : `<h3>${text(title)}</h3><table>${rows.join('')}</table>`
}

function text(raw: string): string {
  return raw.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`)
}
