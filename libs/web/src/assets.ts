/** Styles, scripts and the icon: read once, sent with an ETag. */
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { extname } from 'node:path'
import { baseStyle } from '@holdfast/http-kit'
import type { FastifyInstance } from 'fastify'

const types: Record<string, string> = {
  '.css': 'text/css; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.svg': 'image/svg+xml',
}

export function assetRoutes(app: FastifyInstance): void {
  const folder = new URL('./assets/', import.meta.url)
  for (const name of readdirSync(folder)) {
    const own = readFileSync(new URL(name, folder))
    const bytes = extname(name) === '.css' ? Buffer.concat([baseStyle, own]) : own
    const etag = `"${createHash('sha256').update(bytes).digest('base64url').slice(0, 22)}"`
    app.get(
      `/assets/${name}`,
      { config: { endpoint: 'asset' }, schema: { hide: true } as object },
      async (request, answer) => {
        // Revalidated each time, because a release may change several of a page's assets together.
        answer.headers({ etag, 'cache-control': 'no-cache' })
        if (request.headers['if-none-match'] === etag) return answer.code(304).send()
        return answer.type(types[extname(name)] ?? 'application/octet-stream').send(bytes)
      },
    )
  }
}
