export type { ApiDeps, ApiSettings } from './calls/deps.ts'
export { createApi } from './create-api.ts'
