import { type AccountResult, viewOf } from '@holdfast/accounts'
import { type AnswerShare, type JsonWriter, okWritten, writeMembers } from '@holdfast/http-kit'
import type { Item } from '@holdfast/wire'
import type { FastifyInstance } from 'fastify'
import { answerBytes } from '../answers/answer-bytes.ts'
import { holding } from '../answers/views.ts'
import type { Call } from '../calls/call.ts'
import type { ApiContext } from '../calls/context.ts'
import { serve } from '../calls/operation.ts'
import { mapAnswer } from '../documents/schemas.ts'

export function readBin(app: FastifyInstance, context: ApiContext) {
  serve(app, context, {
    name: 'readBin',
    method: 'GET',
    path: '/recyclebin',
    summary: 'What is in the recycle bin',
    group: 'Extensions',
    token: 'needed',
    answer: mapAnswer('{childrenCount, children: items keyed by UUID, with recycledTime}'),
    refusals: [],
    async handle(call) {
      const held = await call.takeView()
      return presentBin(call, itemsOf(await call.askOwn({ $case: 'readBin', value: {} })), held)
    },
  })
}

function presentBin(call: Call, items: Item[], held: AnswerShare) {
  const bytes = answerBytes(items)
  return okWritten({ bytes, write: (json) => holding(held, bytes, writeBin(json, call, items)) })
}

function* writeBin(json: JsonWriter, call: Call, items: readonly Item[]): Generator<void, void> {
  json.text(`{"childrenCount":${items.length},"children":`)
  yield* writeMembers(json, items, (item) => [
    item.id,
    call.context.present.item(item, { nowSeconds: call.nowSeconds }),
  ])
  json.text('}')
}

function itemsOf(result: AccountResult): Item[] {
  return viewOf(result, 'items').items
}
