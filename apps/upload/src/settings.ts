/** The settings of uploads. Both modes make them here. */
import type { RegionCode } from '@holdfast/kernel'

export interface UploadSettings extends UploadBounds {
  trustProxy: string[] | number | false
  /** Used in links; no slash at the end. */
  downloadUrl: string
  webUrl: string
  /** Where guest accounts are created. */
  region: RegionCode
  /** The regions with which the installation was made, in one order everywhere. */
  founders: readonly RegionCode[]
  /** Key from which new tokens are derived. */
  tokenKeyId: number
  /** Uploads without a token make a guest account. */
  guestUploads: boolean
  /** Bytes of the largest file; undefined: no limit. */
  fileBytesMax: number | undefined
  /** How long `close` lets running uploads continue before it cuts them, ms. */
  drainMs: number
}

export interface UploadBounds {
  /**
   * Concurrent uploads of one address (IPv6: /64); beyond it `error-rateLimit`. Infinity when rate
   * limits are off: then networks are not distinguished.
   */
  uploadsPerNetworkMax: number
  /** Concurrent uploads in all: each holds a socket, some 50 KiB and up to 16 KiB of a file. */
  uploadsMax: number
  /**
   * Concurrent uploads that hold a stage of the store: an eighth of the store's 1,024 is left to
   * repair and replication.
   */
  stagesMax: number
}

export const defaultUploadBounds: UploadBounds = {
  uploadsPerNetworkMax: 256,
  uploadsMax: 2_048,
  stagesMax: 896,
}

/** The settings of a process, as far as uploads follow them. */
type Config = Omit<UploadSettings, keyof UploadBounds | 'downloadUrl' | 'webUrl' | 'founders'> & {
  rateLimits: string
}

export function uploadSettings(
  config: Config,
  { urls, founders }: { urls: { download: string; web: string }; founders: readonly RegionCode[] },
): UploadSettings {
  const { trustProxy, region, tokenKeyId, guestUploads, fileBytesMax, drainMs, rateLimits } = config
  return {
    ...defaultUploadBounds,
    ...(rateLimits === 'off' ? { uploadsPerNetworkMax: Number.POSITIVE_INFINITY } : {}),
    downloadUrl: urls.download,
    webUrl: urls.web,
    trustProxy,
    region,
    founders,
    tokenKeyId,
    guestUploads,
    fileBytesMax,
    drainMs,
  }
}
