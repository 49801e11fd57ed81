export { createDownloads } from './create-downloads.ts'
export type { DownloadContextDeps } from './download-context.ts'
export { webDownloads } from './download-web.ts'
export { type DownloadSettings, downloadSettings } from './settings.ts'
