export { createDownloads, type DownloadsDeps } from './create-downloads.ts'
export type { DownloadPartsDeps } from './download-parts.ts'
export { webDownloads } from './download-web.ts'
