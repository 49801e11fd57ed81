/**
 * Which methods a path has, to distinguish a known path with a wrong method from an unknown one.
 * Paths ignore case.
 */
import type { FastifyRequest } from 'fastify'
import { pathOf } from '../log.ts'

export class KnownPaths {
  readonly #methods = new Map<string, Set<string>>()
  readonly #patterns: { pattern: RegExp; methods: Set<string> }[] = []
  /** Routes with parameters, and whether a fixed path could match one of them. */
  readonly #shadowing = new Map<string, boolean>()

  add(method: string | string[], route: string) {
    if (route === '*' || route === '/*') return
    const url = route.toLowerCase()
    this.#shadowing.clear()
    let methods = this.#methods.get(url)
    if (methods === undefined) {
      methods = new Set()
      this.#methods.set(url, methods)
      if (isPattern(url)) this.#patterns.push({ pattern: patternOf(url), methods })
    }
    for (const each of [method].flat()) methods.add(each)
  }

  /**
   * The methods of this request's path, when its own is not among them; undefined when the request
   * may continue to its route. Empty for an unknown path.
   * @param url of the route that matched the request.
   */
  allowed(request: FastifyRequest, url: string | undefined): string[] | undefined {
    const route = request.is404 ? undefined : url
    if (route !== undefined && !this.#shadows(route)) return undefined
    const path = pathOf(request.url)
      .toLowerCase()
      .replace(/(?<=.)\/$/, '')
    // A fixed path (`/contents/copy`) is not the parameter of another (`/contents/:contentId`).
    const own = this.#methods.get(path)
    if (own !== undefined && !isPattern(path) && !own.has(request.method)) return [...own].sort()
    if (route !== undefined) return undefined
    const methods = new Set<string>()
    for (const { pattern, methods: these } of this.#patterns) {
      if (pattern.test(path)) for (const method of these) methods.add(method)
    }
    return [...methods].sort()
  }

  /** Could a request for a fixed path have matched this route? */
  #shadows(route: string): boolean {
    let shadows = this.#shadowing.get(route)
    if (shadows === undefined) {
      const pattern = isPattern(route) ? patternOf(route.toLowerCase()) : undefined
      shadows =
        pattern !== undefined && this.#methods.keys().some((path) => !isPattern(path) && pattern.test(path))
      this.#shadowing.set(route, shadows)
    }
    return shadows
  }
}

function isPattern(url: string): boolean {
  return url.includes(':') || url.includes('*')
}

function patternOf(url: string): RegExp {
  const parts = url.replace(/\/$/, '').split('/')
  const source = parts.map((part) => {
    if (part === '*') return '.*'
    return part.startsWith(':') ? '[^/]+' : part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
  })
  return new RegExp(`^${source.join('/')}$`)
}
