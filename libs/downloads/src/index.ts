export { createDownloads, type DownloadsDeps } from './create-downloads.ts'
