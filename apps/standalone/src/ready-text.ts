/** Shown once at the terminal: where everything is, and what to try. */
import { commit, version } from '@holdfast/bootstrap'
import type { Addresses } from './addresses.ts'

export function readyText(
  { api, upload, download, admin, web }: Addresses,
  { dataDir }: { dataDir: string },
): string {
  return [
    `Holdfast is ready. API and pages: ${api}  uploads: ${upload}  downloads: ${download}  admin: ${admin}  data: ${dataDir}  version: ${version} (${commit.slice(0, 12)})`,
    '',
    '  Upload a file; a guest account is made for it:',
    `    curl -F file=@README.md ${upload}/uploadfile`,
    '  The answer names its page to share (downloadPage), its id and your guestToken. To get the file back, make a direct link:',
    `    curl -X POST -H "Authorization: Bearer $guestToken" ${api}/contents/$id/directlinks`,
    `  and fetch the directLink that it answers with curl -O, or open the listing ${web}/d/<parentFolderCode> in a browser.`,
    '',
    '  Operator: npm run -s ctl -- --help   Settings: npm run -s config   Stop: Ctrl-C',
  ].join('\n')
}
