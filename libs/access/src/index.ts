export { type AddressRange, isRange, rangesOf, spelledRange } from './addresses.ts'
export {
  type ArchiveCapability,
  signArchiveCapability,
  verifyArchiveCapability,
} from './archive-capability.ts'
export { type Capability, signCapability, verifyCapability } from './capability.ts'
export type { CapabilityKey } from './capability-seal.ts'
export {
  type DirectLinkAccess,
  type DirectLinkInfo,
  type DirectLinkUse,
  directLinkAccess,
  normalDomain,
} from './direct-link-access.ts'
export {
  accessRefusal,
  accessTo,
  type FolderAccess,
  type FolderInfo,
  isOver,
  isShown,
  type PasswordVerdict,
  type Reader,
} from './folder-access.ts'
