import { ok } from '@holdfast/http-kit'
import { type Static, Type } from '@sinclair/typebox'
import type { FastifyInstance } from 'fastify'
import { presentCopies } from '../answers/presenting.ts'
import type { Call } from '../calls/call.ts'
import type { ApiContext } from '../calls/context.ts'
import { copy } from '../calls/copying.ts'
import { serve } from '../calls/operation.ts'
import { contentsId, readerPassword, representationAnswer, uuid } from '../documents/schemas.ts'

/** The fields of a request that copies the caller's own content. */
export const copyBody = Type.Object({ contentsId, folderId: uuid('Destination folder of the caller') })
const body = Type.Object({ ...copyBody.properties, password: readerPassword })

export function copyContents(app: FastifyInstance, context: ApiContext) {
  serve(app, context, {
    name: 'copyContents',
    method: 'POST',
    path: '/contents/copy',
    summary: 'Copy files and folders, own or shared',
    group: 'Contents',
    token: 'needed',
    tier: 'premium',
    body,
    answer: representationAnswer,
    refusals: [
      'error-notFound',
      'error-notOwner',
      'error-passwordRequired',
      'error-passwordWrong',
      'error-limits',
      'error-rootFolder',
      'error-protectedFolder',
    ],
    async handle(call, input) {
      await call.refuseForeign([input.folderId], 'error-notOwner')
      return await copyInto(call, input)
    },
  })
}

export async function copyInto(
  call: Call,
  { contentsId, folderId, password }: Static<typeof body>,
): Promise<object> {
  const view = await copy(call, {
    contentIds: contentsId,
    folderId,
    password: password || undefined,
    skipUnreadable: false,
  })
  return call.wantsRepresentation ? presentCopies(call, view, (item) => item) : ok({})
}
