export { createDownloads } from './create-downloads.ts'
export type { DownloadPartsDeps } from './download-parts.ts'
export { webDownloads } from './download-web.ts'
export { type DownloadSettings, downloadSettings } from './settings.ts'
