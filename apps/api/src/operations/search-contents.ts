import { viewOf } from '@holdfast/accounts'
import {
  integerOf,
  okWritten,
  presentPage,
  type WrittenAnswer,
  withParser,
  writeMembers,
} from '@holdfast/http-kit'
import type { SearchHit } from '@holdfast/wire'
import { type Static, Type } from '@sinclair/typebox'
import type { FastifyInstance } from 'fastify'
import { pageMax, refusalsOfReading } from '../answers/listing.ts'
import { holding } from '../answers/views.ts'
import type { Call } from '../calls/call.ts'
import type { ApiContext } from '../calls/context.ts'
import { serve } from '../calls/operation.ts'
import { mapAnswer, pageAnswer, readerPassword, uuidOrCode, whiteSpace } from '../documents/schemas.ts'

const hitsMax = 10_000
/** Approximate bytes of a hit in an answer. */
const hitBytes = 200

const time = (description: string) =>
  Type.Optional(withParser(Type.Integer({ description: `${description}, Unix seconds` }), integerOf))

/** The parameters of a search in a folder of the caller. */
export const searchQuery = Type.Object({
  contentId: uuidOrCode('Folder'),
  searchedString: withParser(
    Type.String({ minLength: 1, maxLength: 1_024, description: 'Part of a name or tag, without case' }),
    (sent) => (sent.trim() === '' ? undefined : sent),
    { pattern: `[^${whiteSpace}]` },
  ),
  createTimeFrom: time('Created at or after'),
  createTimeTo: time('Created at or before'),
  page: Type.Integer({ minimum: 1, default: 1, description: 'From 1; past the end is empty' }),
  pageSize: Type.Integer({ minimum: 1, default: hitsMax, description: `More than ${hitsMax} is cut` }),
})
const query = Type.Object({ ...searchQuery.properties, password: readerPassword })
export const searchAnswer = mapAnswer('{<id>: {id, type, name, size, createTime}}')

export function searchContents(app: FastifyInstance, context: ApiContext) {
  serve(app, context, {
    name: 'searchContents',
    method: 'GET',
    path: '/contents/search',
    summary: 'Search a folder and all below it by name or tags',
    group: 'Contents',
    token: 'needed',
    tier: context.settings.openListing ? '' : 'premium',
    query,
    answer: searchAnswer,
    metadata: pageAnswer,
    refusals: refusalsOfReading,
    handle: async (call, input) =>
      answerSearch(call, { ...input, contentId: await call.contentNamed(input.contentId) }),
  })
}

/** @param input.contentId a UUID */
export async function answerSearch(call: Call, input: Static<typeof query>): Promise<WrittenAnswer> {
  const password = input.password || undefined
  const { contentId } = input
  // Hits reveal content behind a password: every attempt on another account's folder counts as
  // a guess.
  if (password !== undefined && !call.owns(contentId)) {
    await call.authenticate()
    await call.guesses.wrong('password')
  }
  const held = await call.takeView()
  const result = await call.askOf(contentId, {
    $case: 'searchContents',
    value: {
      contentId,
      searchedString: input.searchedString,
      password,
      createTimeFrom: input.createTimeFrom,
      createTimeTo: input.createTimeTo,
      page: Math.min(input.page, pageMax),
      pageSize: Math.min(input.pageSize, hitsMax),
    },
  })
  const view = viewOf(result, 'search')
  const bytes = view.hits.reduce((sum, { name }) => sum + hitBytes + Buffer.byteLength(name), 0)
  return okWritten(
    { bytes, write: (json) => holding(held, bytes, writeMembers(json, view.hits, presentHit)) },
    view.page && presentPage({ ...view.page, page: input.page }),
  )
}

function presentHit({ id, isFolder, name, size, createTime }: SearchHit) {
  return [id, { id, type: isFolder ? 'folder' : 'file', name, size, createTime }] as const
}
