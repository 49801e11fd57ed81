export { createApi } from './create-api.ts'
export type { ApiDeps, ApiSettings } from './deps.ts'
