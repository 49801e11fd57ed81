/** Figures of an account, as its owner and the operator see them. */
import type { AccountView } from '@holdfast/wire'

export function presentStatistics(view: AccountView) {
  return {
    storage: view.storage,
    fileCount: view.fileCount,
    folderCount: view.folderCount,
    trafficDirectGenerated: view.trafficDirect,
    trafficWebDownloaded: view.trafficWeb,
  }
}

/** Null where there is no limit. */
export function presentLimits(view: AccountView) {
  return {
    storage: view.limitStorage ?? null,
    contents: view.limitContents ?? null,
    traffic: view.limitTraffic ?? null,
  }
}
