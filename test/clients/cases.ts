import { cyberdropDl } from './cases/cyberdrop-dl.ts'
import { galleryDl } from './cases/gallery-dl.ts'
import { gofileIoUploader } from './cases/gofile-io-uploader.ts'
import { gofileTui } from './cases/gofile-tui.ts'
import { gofile2 } from './cases/gofile2.ts'
import { gofilepy } from './cases/gofilepy.ts'
import { gofilepyApi } from './cases/gofilepy-api.ts'
import { megaloader } from './cases/megaloader.ts'
import { rclone } from './cases/rclone.ts'
import type { Client } from './steps.ts'

/** Longest first. */
export const clients: readonly Client[] = [
  cyberdropDl,
  rclone,
  galleryDl,
  gofileTui,
  gofile2,
  gofileIoUploader,
  gofilepyApi,
  gofilepy,
  megaloader,
]
