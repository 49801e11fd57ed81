import { decimalForm, integerForms, responsesOf } from '@holdfast/http-kit'
import { uuidPattern } from '@holdfast/kernel'
import { Type } from '@sinclair/typebox'
import { itemAnswer, modTimeRange, white } from './schemas.ts'

/** White space around a field is dropped; what is then empty counts as none. */
const optional = (form: string) => ({ type: 'string', pattern: `^${white}*(${form}${white}*)?$` })
const [modTimeNumber] = integerForms(modTimeRange)

/** The upload host's operation for the OpenAPI document: another host serves it. */
export function uploadPaths(uploadUrl: string): Record<string, object> {
  /**
   * In a form a field that occurs at most once is a list of at most one.
   */
  const once = (schema: object, description: string) => ({
    description,
    anyOf: [schema, { type: 'array', items: schema, maxItems: 1 }],
  })
  return {
    '/uploadfile': {
      servers: [{ url: uploadUrl }],
      post: {
        operationId: 'uploadFile',
        summary: 'Upload a file',
        tags: ['Uploads'],
        description:
          'Answers the file object; when no token was sent also with `guestToken`. Fields come in any order.',
        security: [{ bearer: [] }, {}],
        requestBody: {
          required: true,
          content: {
            'multipart/form-data': {
              schema: {
                type: 'object',
                required: ['file'],
                properties: {
                  file: { type: 'string', format: 'binary' },
                  folderId: once(
                    optional(uuidPattern),
                    'Destination folder; omitted or empty: a new public folder at the root',
                  ),
                  token: once(
                    optional('[A-Za-z0-9_-]{64}'),
                    'Account token; the Authorization header may carry it instead',
                  ),
                  modTime: once(
                    { anyOf: [modTimeNumber, optional(decimalForm(modTimeRange))] },
                    'Unix seconds, from the year 0 to 9999',
                  ),
                },
              },
            },
          },
        },
        responses: responsesOf({
          method: 'POST',
          tier: undefined,
          hasPathParameters: false,
          readsToken: true,
          readsKey: true,
          success: Type.Object({
            status: Type.Literal('ok'),
            data: Type.Object({
              ...itemAnswer.properties,
              guestToken: Type.Optional(Type.String({ description: 'When no token was sent' })),
            }),
          }),
          parameters: ['file', 'folderId', 'modTime'],
          refusals: [
            'error-notFound',
            'error-notOwner',
            'error-forbidden',
            'error-limits',
            'error-protectedFolder',
            'error-fileSize',
          ],
        }),
      },
    },
  }
}
