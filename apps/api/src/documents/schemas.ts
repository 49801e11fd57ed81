/** Parameters and answers that several operations share. */
import {
  itemDocument,
  parseFolderPassword,
  parseIds,
  parseModTime,
  parseName,
  parseUuid,
  withParser,
} from '@holdfast/http-kit'
import {
  controlCharacters,
  idsPerListMax,
  isShareCode,
  nameCodePointsMax,
  tiers,
  timeMax,
  timeMin,
  uuidPattern,
} from '@holdfast/kernel'
import { Type } from '@sinclair/typebox'

/** Members of a class: expressions of other languages take other characters for white space. */
export const whiteSpace = '\\t-\\r \\u00a0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000\\ufeff'
/** A character that `trim` removes. */
export const white = `[${whiteSpace}]`

export const uuid = (description: string) =>
  withParser(Type.String({ format: 'uuid', description, maxLength: 64 }), parseUuid, {
    pattern: `^${uuidPattern}$`,
    maxLength: 36,
  })

export const uuidOrCode = (description: string) =>
  withParser(
    Type.String({ description: `${description}: UUID or share code`, maxLength: 64 }),
    (sent) => (isShareCode(sent) ? sent : parseUuid(sent)),
    { pattern: `^(${uuidPattern}|[0-9A-Za-z]{8}|[0-9A-Za-z]{6})$`, minLength: 6, maxLength: 36 },
  )

export const idEntry = `${white}*${uuidPattern}${white}*`

export const contentsId = withParser(
  Type.String({ description: 'Comma-separated UUIDs, at most 1,000; one bad id fails the call' }),
  parseIds,
  { pattern: `^${idEntry}(,${idEntry}){0,${idsPerListMax - 1}}$`, minLength: 36 },
)

export const contentName = (description: string) =>
  withParser(Type.String({ description, maxLength: 1_024 }), parseName, nameDocument)

/** What `parseName` accepts. */
export const nameDocument = {
  pattern: `^(?!\\.\\.?$)[^/${controlCharacters}]*$`,
  minLength: 1,
  maxLength: nameCodePointsMax,
}

/** Example of a future time, for the document: the year 2100. */
export const futureTime = 4_102_444_800

export const modTimeRange = { minimum: timeMin, maximum: timeMax }

export const modTime = withParser(
  Type.Integer({ description: 'Unix seconds, from the year 0 to 9999' }),
  parseModTime,
  modTimeRange,
)

/** The password of a reader. Empty counts as none. */
export const readerPassword = Type.Optional(
  Type.String({ description: 'SHA-256 hex of the folder password', maxLength: 1_024 }),
)

export { parseFolderPassword }

/** An id in a path. */
export const contentIdPath = Type.Object({ contentId: uuid('Content') })

/** `{id}` in a path where the contract takes both. */
export const contentPath = Type.Object({ contentId: uuidOrCode('Content') })

const time = (description: string) => Type.Integer({ description: `${description}, Unix seconds` })

export const directLinkAnswer = Type.Object({
  id: Type.Optional(Type.String({ format: 'uuid' })),
  expireTime: time('0 for none'),
  sourceIpsAllowed: Type.Array(Type.String()),
  domainsAllowed: Type.Array(Type.String()),
  domainsBlocked: Type.Array(Type.String()),
  auth: Type.Array(Type.String({ description: 'User name' })),
  isReqLink: Type.Boolean(),
  directLink: Type.String({ format: 'uri' }),
})

export const itemAnswer = Type.Object(itemDocument, { additionalProperties: true })

export const pageAnswer = Type.Object({
  page: Type.Integer(),
  pageSize: Type.Integer(),
  totalCount: Type.Integer(),
  totalPages: Type.Integer(),
  hasNextPage: Type.Boolean(),
})

export const emptyAnswer = Type.Object({}, { description: 'Empty' })

/** `{}`, or with `Prefer: return=representation` the result of each id. */
export const representationAnswer = Type.Object(
  {},
  {
    additionalProperties: true,
    description: 'Empty; with `Prefer: return=representation` {<source id>: {status, data: <item>}}',
  },
)

export const mapAnswer = (description: string) => Type.Object({}, { additionalProperties: true, description })

const count = Type.Integer()
const cap = Type.Union([Type.Integer(), Type.Null()], { description: 'null: none' })

export const accountAnswer = Type.Object({
  id: Type.String({ format: 'uuid' }),
  email: Type.String({ description: 'A guest has one that reaches no inbox' }),
  emailConfirmed: Type.Boolean({ description: 'Somebody signed in by a link that was mailed there' }),
  tier: Type.String({ enum: [...tiers] }),
  premiumType: Type.Union([Type.String(), Type.Null()]),
  token: Type.String(),
  rootFolder: Type.String({ format: 'uuid' }),
  createTime: time('Created'),
  statsCurrent: Type.Object({
    storage: count,
    fileCount: count,
    folderCount: count,
    trafficDirectGenerated: count,
    trafficWebDownloaded: count,
  }),
  limits: Type.Object({ storage: cap, contents: cap, traffic: cap }),
  recycleBin: Type.Object({ enabled: Type.Boolean(), folder: Type.String({ format: 'uuid' }) }),
  subscriptionProvider: Type.Union([Type.String(), Type.Null()]),
  subscriptionEndDate: Type.Union([Type.Integer(), Type.Null()]),
  subscriptionLimitStorage: cap,
  subscriptionLimitDirectTraffic: cap,
})
