export { createUpload } from './app.ts'
export type { UploadDeps } from './context.ts'
export { fileType } from './file-type.ts'
export { defaultBounds, type UploadSettings, uploadSettings } from './settings.ts'
