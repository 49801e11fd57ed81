export { createUpload } from './app.ts'
export type { UploadDeps } from './context.ts'
export { fileType } from './file-type.ts'
export {
  allIsGood,
  ContentScans,
  type Judgement,
  type JudgesContent,
  type ScanSettings,
} from './scanning/content-scans.ts'
export { openScans } from './scanning/open-scans.ts'
export type { Scanner, Verdict } from './scanning/scanner.ts'
export { defaultUploadBounds, type UploadSettings, uploadSettings } from './settings.ts'
