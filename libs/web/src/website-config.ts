/**
 * `/dist/js/config.js`: older clients read the website token from a script of the pages and send it
 * with their listings. The API accepts any value, so this one is no secret and never changes.
 */
import type { FastifyInstance } from 'fastify'

/** Clients expect 12 characters between the quotes. */
const script = 'var appdata = {}\nappdata.wt = "websitereads"\n'

export function websiteConfig(app: FastifyInstance): void {
  app.get(
    '/dist/js/config.js',
    { config: { endpoint: 'asset' }, schema: { hide: true } },
    async (_, answer) => answer.type('text/javascript; charset=utf-8').send(script),
  )
}
