import { viewOf } from '@holdfast/accounts'
import {
  booleanOf,
  integerForms,
  integerOf,
  ok,
  parseDescription,
  parseExpiry,
  parseFolderPassword,
  parseModTime,
  parseName,
  parseTags,
  passwordLengthMax,
  passwordLengthMin,
  RefusalError,
  RepeatedParameter,
} from '@holdfast/http-kit'
import {
  descriptionCodePointsMax,
  sentTagsCodePointsMax,
  tagCharacters,
  tagCodePointsMax,
  tagsMax,
  timeMax,
} from '@holdfast/kernel'
import type { UpdateContent } from '@holdfast/wire'
import { type Static, Type } from '@sinclair/typebox'
import type { FastifyInstance } from 'fastify'
import { presentContent } from '../answers/presenting.ts'
import type { Call } from '../calls/call.ts'
import type { ApiContext } from '../calls/context.ts'
import { serve } from '../calls/operation.ts'
import {
  contentIdPath,
  futureTime,
  itemAnswer,
  modTimeRange,
  nameDocument,
  white,
  whiteSpace,
} from '../documents/schemas.ts'

/** The account's attributes, by the names that clients use. */
type SettableName = Exclude<NonNullable<Change>['$case'], 'isPublic'> | 'public'

const removed = { enum: ['', null], description: 'Removes it' }
const [expiryNumber, expiryText] = integerForms({ minimum: 0, maximum: timeMax })

const tag = `[${tagCharacters}]{1,${tagCodePointsMax}}`
const gap = `[${whiteSpace},]*`
/** What `parseTags` accepts, except that a tag which is repeated counts. */
const tagsForm = `^${gap}(${tag}(${white}*,${gap}${tag}){0,${tagsMax - 1}}${gap})?$`

/** The values of each. `true`, decimals and an empty value may come as text. */
const valuesOf: Record<SettableName, object[]> = {
  name: [{ type: 'string', ...nameDocument }],
  description: [{ type: 'string', maxLength: descriptionCodePointsMax }, removed],
  tags: [{ type: 'string', pattern: tagsForm, maxLength: sentTagsCodePointsMax }, removed],
  public: [{ type: 'boolean' }, { type: 'string', enum: ['true', 'false'] }],
  password: [{ type: 'string', minLength: passwordLengthMin, maxLength: passwordLengthMax }, removed],
  expiry: [
    { ...expiryNumber, description: 'Unix seconds, in the future', examples: [futureTime] },
    expiryText,
    removed,
  ],
  modTime: integerForms(modTimeRange),
}
const attributes = Object.keys(valuesOf) as SettableName[]
const removable = attributes.filter((name) => valuesOf[name].includes(removed))
const described = {
  attributeValue: `Empty removes ${new Intl.ListFormat('en-GB').format(removable)}`,
  deleteAfterExpiry: 'With expiry: a Premium owner consents to deletion when it ends',
}

const body = Type.Object({
  attribute: Type.Unsafe<SettableName>(Type.String({ pattern: `^(${attributes.join('|')})$` })),
  attributeValue: Type.Unknown(),
  deleteAfterExpiry: Type.Optional(Type.Boolean()),
})

/** The body in the OpenAPI document: each attribute with its values. */
const bodyDocument = {
  type: 'object',
  required: ['attribute', 'attributeValue'],
  properties: {
    attribute: { type: 'string', enum: attributes },
    attributeValue: { description: described.attributeValue },
    deleteAfterExpiry: {
      anyOf: [{ type: 'boolean' }, { type: 'string', enum: ['true', 'false'] }, { type: 'null' }],
      description: described.deleteAfterExpiry,
    },
  },
  oneOf: Object.entries(valuesOf).map(([attribute, values]) => ({
    type: 'object',
    title: attribute,
    required: ['attribute', 'attributeValue'],
    properties: { attribute: { type: 'string', enum: [attribute] }, attributeValue: { anyOf: values } },
  })),
}

export function updateContents(app: FastifyInstance, context: ApiContext) {
  serve(app, context, {
    name: 'updateContents',
    method: 'PUT',
    path: '/contents/:contentId/update',
    summary: 'Change one attribute',
    group: 'Contents',
    token: 'needed',
    params: contentIdPath,
    body,
    bodyDocument,
    answer: itemAnswer,
    refusals: [
      'error-notFound',
      'error-notOwner',
      'error-limits',
      'error-rootFolder',
      'error-protectedFolder',
    ],
    innerNames: attributes,
    async handle(call, input) {
      const attribute = await attributeOf(call, input)
      await call.refuseForeign([input.contentId], 'error-notOwner')
      const value: UpdateContent = {
        contentId: input.contentId,
        attribute: await hashPassword(call, attribute),
      }
      const result = await call.askOwn({ $case: 'updateContent', value })
      return ok(presentContent(call, viewOf(result, 'content')))
    },
  })
}

type Change = UpdateContent['attribute']
/** A password is hashed only after all other checks. */
type UnhashedChange = Change | { $case: 'plainPassword'; value: string }

/** @throws RefusalError named after the attribute, after token and tier were checked */
async function attributeOf(call: Call, input: Static<typeof body>): Promise<UnhashedChange> {
  const attribute = readAttribute(input, call.nowSeconds)
  if (attribute !== undefined) return attribute
  await call.authenticate()
  throw new RefusalError(`error-${input.attribute}`)
}

/** The attribute as accounts accept it; undefined for an invalid value. */
function readAttribute(input: Static<typeof body>, nowSeconds: number): UnhashedChange | undefined {
  const sent = input.attributeValue instanceof RepeatedParameter ? undefined : input.attributeValue
  const text = typeof sent === 'string' ? sent : undefined
  const removes = sent === null || sent === ''
  switch (input.attribute) {
    case 'name':
      return changed('name', text === undefined ? undefined : parseName(text))
    case 'description':
      return changed('description', removes ? '' : text === undefined ? undefined : parseDescription(text))
    case 'tags':
      return changed('tags', removes ? '' : text === undefined ? undefined : parseTags(text))
    case 'public':
      return changed('isPublic', booleanOf(sent))
    case 'password':
      if (removes) return changed('password', { verifier: undefined })
      return changed('plainPassword', text === undefined ? undefined : parseFolderPassword(text))
    case 'expiry': {
      if (removes) return changed('expiry', { expiry: undefined, deleteAfterExpiry: false })
      const number = integerOf(sent)
      const expiry = number === undefined ? undefined : parseExpiry(number, nowSeconds)
      if (expiry === undefined) return undefined
      return changed('expiry', { expiry, deleteAfterExpiry: input.deleteAfterExpiry ?? false })
    }
    case 'modTime': {
      const number = integerOf(sent)
      return changed('modTime', number === undefined ? undefined : parseModTime(number))
    }
  }
}

function changed<Case extends NonNullable<UnhashedChange>['$case']>(
  $case: Case,
  value: Extract<NonNullable<UnhashedChange>, { $case: Case }>['value'] | undefined,
): UnhashedChange | undefined {
  return value === undefined ? undefined : ({ $case, value } as UnhashedChange)
}

async function hashPassword(call: Call, attribute: UnhashedChange): Promise<Change> {
  if (attribute?.$case !== 'plainPassword') return attribute
  const { networkKey: network = '', caller } = call
  const verifier = await call.context.passwords.verifier(attribute.value, {
    network,
    account: caller.accountId,
  })
  return { $case: 'password', value: { verifier } }
}
