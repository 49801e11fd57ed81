export { Authority, AuthorityFault, type HostNames, type IssuedFiles, type Kind } from './authority.ts'
export type { CertificateInfo } from './certificate-info.ts'
export { clusterNames, hostOf, isOfHost } from './server-identity.ts'
export {
  certificatesOf,
  type TlsContext,
  TlsFiles,
  type TlsFilesOptions,
  type TlsFilesTuning,
  type TlsPaths,
} from './tls-files.ts'
