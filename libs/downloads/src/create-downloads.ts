/** Builds the download host out of its context. */
import {
  createHttpHost,
  drainOnClose,
  healthRoute,
  sharedParts,
  type TellsReadiness,
} from '@holdfast/http-kit'
import type { FastifyInstance } from 'fastify'
import { type DownloadContextDeps, downloadContext } from './download-context.ts'
import { type DirectLinkParams, directLink } from './links/direct-link.ts'
import { download } from './links/download.ts'
import { downloadWebRoutes } from './links/download-web.ts'
import { visitorArchive } from './links/visitor-archive.ts'

export interface DownloadHostDeps {
  readiness: TellsReadiness
  /** True if the blob store reads whole blobs in this process and asks no other process. */
  readsHere: boolean
}

/**
 * The host of downloads, direct links and archives; the caller listens.
 *
 * `close` stops listening, lets running requests end within `drainMs`, cuts the rest, and reports
 * the remaining counts. The ports stay open: they belong to the caller.
 */
export function createDownloads(deps: DownloadContextDeps & DownloadHostDeps): FastifyInstance {
  const { blocked, log, rateLimits, settings } = deps
  const app = createHttpHost({
    ...sharedParts(deps.budgets),
    name: 'download',
    log,
    metrics: deps.metrics,
    trustProxy: settings.trustProxy,
    cors: true,
    rateLimits,
    isBanned: (address) => blocked.blocksAddress(address),
  })
  const context = downloadContext(deps, { inPlace: true })
  const method = ['GET', 'HEAD']
  for (const url of ['/download/:contentId', '/download/:contentId/*']) {
    app.route<{ Params: { contentId: string } }>({
      method,
      url,
      config: { endpoint: 'download', namesItself: deps.readsHere },
      handler: (request, reply) => download(context, request, reply),
    })
  }
  downloadWebRoutes(app, context)
  app.route({
    method,
    url: '/download/archive/:name',
    config: { endpoint: 'downloadArchive' },
    handler: (request, reply) => visitorArchive(context, request, reply),
  })
  for (const url of ['/direct/:contentId/:linkId', '/direct/:contentId/:linkId/*']) {
    app.route<{ Params: DirectLinkParams }>({
      method,
      url,
      config: { endpoint: 'directLink' },
      handler: (request, reply) => directLink(context, request, reply),
    })
  }
  healthRoute(app, deps.readiness)
  drainOnClose(app, settings)
  app.addHook('onClose', () => context.reports.close())
  return app
}
