import { responsesOf } from '@holdfast/http-kit'
import { Type } from '@sinclair/typebox'
import { itemAnswer, modTimeRange } from './schemas.ts'

/** As `isUuid` has it. */
const uuid = '[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}'

/** The upload host's operation for the OpenAPI document: another host serves it. */
export function uploadPaths(uploadUrl: string): Record<string, object> {
  /**
   * An empty field counts as none. In a form a field that occurs at most once is a list of at most
   * one.
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
                    { type: 'string', pattern: `^(${uuid})?$` },
                    'Destination folder; omitted or empty: a new public folder at the root',
                  ),
                  token: once(
                    { type: 'string', pattern: '^([A-Za-z0-9_-]{64})?$' },
                    'Account token; the Authorization header may carry it instead',
                  ),
                  modTime: once(
                    {
                      anyOf: [
                        { type: 'integer', ...modTimeRange },
                        { type: 'string', maxLength: 0 },
                      ],
                    },
                    'Unix seconds, from the year 0 to 9999',
                  ),
                },
              },
            },
          },
        },
        responses: responsesOf({
          method: 'POST',
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
