/** The upload host's operation as the OpenAPI document shows it: it lives on another host. */
export function uploadPaths(uploadUrl: string): Record<string, object> {
  const text = (description: string) => ({ type: 'string', description })
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
                  folderId: text('Destination folder; omitted: a new public folder at the root'),
                  token: text('Account token; the Authorization header may carry it instead'),
                  modTime: { type: 'integer', description: 'Unix seconds' },
                },
              },
            },
          },
        },
        responses: { 200: { description: 'The file object' }, default: { description: 'error-<name>' } },
      },
    },
  }
}
