/**
 * Every answer that the suite got, compared with the OpenAPI document of its service: an
 * undocumented answer is a fault of the service or of the document.
 */
import { send } from './http.ts'
import { answersOf, type SeenAnswer } from './seen.ts'
import type { Hosts } from './world.ts'

interface Schema {
  const?: unknown
  enum?: unknown[]
  properties?: Record<string, Schema>
}

interface Operation {
  operationId: string
  responses: Record<string, { content?: Record<string, { schema?: Schema }> }>
}

type Paths = Record<string, Record<string, Operation> & { servers?: object[] }>

/** How the document and the answers of the services agree. */
export interface Comparison {
  /** Kinds of answers, by operation, HTTP code and status. */
  compared: number
  /** Operations of the document without an answer. */
  unseen: string[]
  /** `operation code status`, each with an example request. */
  undocumented: string[]
}

/** @param services whose hosts answered, and still run */
export async function compareWithDocuments(services: readonly Hosts[]): Promise<Comparison> {
  const compared = new Set<string>()
  const unseen = new Set<string>()
  const seen = new Set<string>()
  const undocumented = new Map<string, string>()
  for (const { api, upload } of services) {
    const document = JSON.parse((await send(`${api[0]}/openapi.json`)).body.toString()) as { paths: Paths }
    const routes = routesOf(document.paths)
    for (const { operation } of routes) unseen.add(operation.operationId)
    for (const [origins, isElsewhere] of [
      [api, false],
      [upload, true],
    ] as const)
      for (const answered of origins.flatMap(answersOf)) {
        const operation = operationOf(
          routes.filter((route) => route.isElsewhere === isElsewhere),
          answered,
        )
        if (operation === undefined || ofProxies.has(answered.code)) continue
        const { method, url, code, status } = answered
        const kind = `${operation.operationId} ${code} ${status ?? '(no envelope)'}`
        compared.add(kind)
        seen.add(operation.operationId)
        if (!isDocumented(operation, answered)) undocumented.set(kind, `${kind}: ${method} ${url.pathname}`)
      }
  }
  return {
    compared: compared.size,
    unseen: [...unseen.difference(seen)].sort(),
    undocumented: [...undocumented.values()].sort(),
  }
}

/** Only a proxy answers this, when no process of the service answered. */
const ofProxies = new Set([502, 504])

interface Route {
  method: string
  path: RegExp
  parameters: number
  /** On the upload host. */
  isElsewhere: boolean
  operation: Operation
}

/** Those with fewer parameters first: `/contents/search` is not the content `search`. */
function routesOf(paths: Paths): Route[] {
  const routes = Object.entries(paths).flatMap(([template, { servers, ...operations }]) =>
    Object.entries(operations).map(([method, operation]) => ({
      method: method.toUpperCase(),
      path: new RegExp(`^${template.replace(/\{\w+\}/g, '[^/]+')}/?$`, 'i'),
      parameters: template.split('{').length,
      isElsewhere: servers !== undefined,
      operation,
    })),
  )
  return routes.sort((a, b) => a.parameters - b.parameters)
}

function operationOf(routes: readonly Route[], { method, url }: SeenAnswer): Operation | undefined {
  const asked = method === 'HEAD' ? 'GET' : method
  const path = routes.find((route) => route.path.test(url.pathname))?.path.source
  return routes.find((route) => route.method === asked && route.path.source === path)?.operation
}

function isDocumented({ responses }: Operation, { method, code, status }: SeenAnswer): boolean {
  // No case expects a fault, although documents name it.
  if (status === 'error-internal') return false
  const schema = responses[code]?.content?.['application/json']?.schema
  if (schema === undefined) return false
  if (method === 'HEAD') return true
  const { const: only, enum: several = [only] } = schema.properties?.status ?? {}
  return status !== undefined && several.includes(status)
}
