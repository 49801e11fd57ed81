export { createApi } from './create-api.ts'
export type { ApiDeps, ApiSettings } from './deps.ts'
export { regionalUploadUrl, regionNames } from './region-hosts.ts'
