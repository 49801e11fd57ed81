import { viewOf } from '@holdfast/accounts'
import { ok } from '@holdfast/http-kit'
import { type Static, Type } from '@sinclair/typebox'
import type { FastifyInstance } from 'fastify'
import { presentItems } from '../answers/presenting.ts'
import type { Call } from '../calls/call.ts'
import type { ApiContext } from '../calls/context.ts'
import { serve } from '../calls/operation.ts'
import { contentsId, representationAnswer, uuid } from '../documents/schemas.ts'

const body = Type.Object({ contentsId, folderId: uuid('Destination folder of the caller') })

/** The parts of the operation that the pages' path has, too. */
export const moving = {
  method: 'PUT',
  token: 'needed',
  body,
  answer: representationAnswer,
  refusals: ['error-notFound', 'error-notOwner', 'error-limits', 'error-rootFolder', 'error-protectedFolder'],
  handle: move,
} as const

export function moveContents(app: FastifyInstance, context: ApiContext) {
  serve(app, context, {
    ...moving,
    name: 'moveContents',
    path: '/contents/move',
    summary: 'Move files and folders',
    group: 'Contents',
    tier: 'premium',
  })
}

async function move(call: Call, { contentsId, folderId }: Static<typeof body>): Promise<object> {
  await call.refuseForeign([...contentsId, folderId], 'error-notOwner')
  const result = await call.askOwn({ $case: 'moveContents', value: { contentIds: contentsId, folderId } })
  return call.wantsRepresentation ? presentItems(call, contentsId, viewOf(result, 'items')) : ok({})
}
