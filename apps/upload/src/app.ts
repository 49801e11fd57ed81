/** Builds the upload host from its parts. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import {
  createHttpHost,
  drainOnClose,
  healthRoute,
  ItemPresenter,
  RefusalError,
  sharedParts,
} from '@holdfast/http-kit'
import type { FastifyInstance } from 'fastify'
import type { UploadContext, UploadDeps } from './context.ts'
import { FormMemory } from './form-scanner.ts'
import { RunningUploads } from './running-uploads.ts'
import { upload } from './upload.ts'
import { UploadMetrics } from './upload-metrics.ts'
import { UploadPermissionCache } from './upload-permission-cache.ts'

/**
 * The upload host; the caller listens. `close` lets running uploads end within `drainMs`. The ports
 * stay open: they belong to the caller.
 */
export function createUpload(deps: UploadDeps): FastifyInstance {
  const { settings, keyring } = deps
  const app = createHttpHost({
    ...sharedParts(deps.budgets),
    name: 'upload',
    log: deps.log,
    metrics: deps.metrics,
    trustProxy: settings.trustProxy,
    cors: true,
    rateLimits: deps.rateLimits,
    isBanned: (address) => deps.blocked.blocksAddress(address),
  })
  const uploadMetrics: UploadMetrics = new UploadMetrics(deps.metrics, () => running.figures)
  const running = new RunningUploads({
    perNetworkMax: settings.uploadsPerNetworkMax,
    uploadsMax: settings.uploadsMax,
    stagesMax: settings.stagesMax,
    now: () => deps.clock.monotonic(),
    metrics: uploadMetrics,
  })
  const context: UploadContext = {
    ...deps,
    uploadMetrics,
    running,
    present: new ItemPresenter({
      downloadUrl: settings.downloadUrl,
      serversOf: deps.serversOf,
      directUrlOf: undefined,
      capabilityKey: keyring.derive('capability'),
    }),
    permissions: new UploadPermissionCache(deps.clock),
    forms: new FormMemory(),
    idempotencySecret: keyring.derive('idempotency'),
  }

  // The handler reads the bytes as they come.
  app.addContentTypeParser(/^multipart\/form-data/i, (_request, _body, done) => done(null, undefined))
  // A client that waits for 100 Continue gets it from the handler, or a refusal.
  app.server.on('checkContinue', (request: IncomingMessage, response: ServerResponse) =>
    app.server.emit('request', request, response),
  )
  for (const url of ['/uploadfile', '/contents/uploadfile']) {
    app.route({
      method: 'POST',
      url,
      config: { endpoint: 'upload' },
      handler: (request, reply) => {
        if (request.body !== undefined) throw new RefusalError('error-body')
        return upload(context, request, reply)
      },
    })
  }
  healthRoute(app, deps.readiness)
  drainOnClose(app, { drainMs: settings.drainMs })
  return app
}
