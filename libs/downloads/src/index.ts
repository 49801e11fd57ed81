export { createDownloads } from './create-downloads.ts'
export type { DownloadContextDeps } from './download-context.ts'
export { webDownloads } from './links/download-web.ts'
export { type DownloadSettings, downloadSettings } from './settings.ts'
