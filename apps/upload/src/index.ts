export { createUpload, type UploadDeps, type UploadSettings } from './app.ts'
