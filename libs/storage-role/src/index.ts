export { StorageRole, type StorageRoleOptions } from './storage-role.ts'
