export { createDownloads, type DownloadsDeps } from './app.ts'
export { StorageRole, type StorageRoleOptions } from './storage-role.ts'
