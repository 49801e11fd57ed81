/**
 * `/dist/js/config.js`: older clients read the website token out of a script of the pages and send
 * it with their listings. The API takes any value, so this one is no secret and never changes.
 */
import type { FastifyInstance } from 'fastify'

/** Clients look for 12 characters between the quotes. */
const script = 'var appdata = {}\nappdata.wt = "websitereads"\n'

export function websiteConfig(app: FastifyInstance): void {
  app.get(
    '/dist/js/config.js',
    { config: { endpoint: 'asset' }, schema: { hide: true } },
    async (_, answer) => answer.type('text/javascript; charset=utf-8').send(script),
  )
}
