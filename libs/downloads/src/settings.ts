/** The settings of downloads. Every process with such a host makes them here. */
export interface DownloadSettings {
  trustProxy: string[] | number | false
  /** How long `close` lets running downloads continue before it cuts them, ms. */
  drainMs: number
  /** Origin of the pages, without a slash at the end. */
  webUrl: string
}

/** @param config the settings of a process, as far as downloads follow them. */
export function downloadSettings(
  { trustProxy, drainMs }: Omit<DownloadSettings, 'webUrl'>,
  { webUrl }: { webUrl: string },
): DownloadSettings {
  return { trustProxy, drainMs, webUrl }
}
