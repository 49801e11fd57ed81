import type { FastifyInstance } from 'fastify'
import type { ApiContext } from '../../calls/context.ts'
import { serve } from '../../calls/operation.ts'
import { moving } from '../move-contents.ts'

/** For owners of every tier. */
export function webMove(app: FastifyInstance, context: ApiContext) {
  serve(app, context, {
    ...moving,
    name: 'webMove',
    path: '/web/contents/move',
    summary: 'Move files and folders, with an account of any tier',
    group: 'Extensions',
  })
}
