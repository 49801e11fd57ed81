export { createDownloads, type DownloadsDeps } from './app.ts'
