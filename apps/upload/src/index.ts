export { createUpload } from './app.ts'
export type { UploadDeps, UploadSettings } from './context.ts'
export { fileType } from './file-type.ts'
