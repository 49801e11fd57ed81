export { type AddressRange, isRange, rangesOf, spelledRange } from './addresses.ts'
export { type Capability, type CapabilityKey, signCapability, verifyCapability } from './capability.ts'
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
