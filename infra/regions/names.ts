/** Domain names of a deployment's public hosts. */
import { regionalUploadUrl } from '../../apps/api/src/region-hosts.ts'
import type { Deployment, Region } from './deployment.ts'

export interface PublicNames {
  web: string
  api: string
  upload: string
  /** `upload-<region>`: pins the region. */
  regionalUpload: string
  download: string
  /** `download-<region>`. */
  regionalDownload: string
}

export function namesOf({ domain, downloads }: Deployment, code: Region['code']): PublicNames {
  return {
    web: domain,
    api: `api.${domain}`,
    upload: `upload.${domain}`,
    // The API answers clients with this name, made by the same function.
    regionalUpload: new URL(regionalUploadUrl(`https://upload.${domain}`, code)).hostname,
    download: `download.${downloads}`,
    regionalDownload: `download-${code}.${downloads}`,
  }
}
