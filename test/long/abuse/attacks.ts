/** Every attack, in the order of the table. */
import type { Attack } from './attack.ts'
import { accountsFlood, accountsOfMany, mailsFlood } from './attacks/accounts-and-mails.ts'
import { brokenHttp, comingAndGoing, forwardedFor, hugeHeaders } from './attacks/broken-http.ts'
import { guessesOnADirectLink, passwordGuesses } from './attacks/guesses.ts'
import {
  copies,
  directLinks,
  expiries,
  fullDirectLinks,
  searches,
  slowNames,
} from './attacks/heavy-accounts.ts'
import {
  archives,
  rangeStorms,
  rangesOfBytes,
  renamedArchives,
  slowReaders,
  unreadDownloads,
} from './attacks/hostile-downloads.ts'
import {
  abortedUploads,
  formOfManyParts,
  notQuiteForms,
  slowUploads,
  spacesInPartHeaders,
  tinyChunksInUploads,
  uploadsWithoutToken,
} from './attacks/hostile-forms.ts'
import { nestedJson, poisonedJson } from './attacks/hostile-json.ts'
import { askingNetworks, idleConnections, idleConnectionsV6, idleCrowd } from './attacks/idle-connections.ts'
import { listingBombRead, listingBombUnread, manyItemsUnread } from './attacks/listing-bombs.ts'
import { passwordsSet, smallRequests } from './attacks/many-askers.ts'
import { largeListings, pages, smallListings } from './attacks/many-readers.ts'
import { noDescriptors } from './attacks/no-descriptors.ts'
import { pipelinedByMany, pipelinedGets, pipelinedListings } from './attacks/pipelines.ts'
import { reportsFlood } from './attacks/reports.ts'
import { halfOpen, slowBodies, slowChunks, slowHeaders } from './attacks/slow-requests.ts'

export const attacks: readonly Attack[] = [
  idleConnections,
  idleCrowd,
  idleConnectionsV6,
  askingNetworks,
  slowHeaders,
  slowBodies,
  slowChunks,
  halfOpen,
  comingAndGoing,
  brokenHttp,
  hugeHeaders,
  forwardedFor,
  spacesInPartHeaders,
  formOfManyParts,
  notQuiteForms,
  tinyChunksInUploads,
  abortedUploads,
  slowUploads,
  uploadsWithoutToken,
  accountsFlood,
  accountsOfMany,
  mailsFlood,
  reportsFlood,
  nestedJson,
  poisonedJson,
  listingBombUnread,
  listingBombRead,
  manyItemsUnread,
  smallListings,
  largeListings,
  pages,
  smallRequests,
  pipelinedListings,
  pipelinedGets,
  pipelinedByMany,
  passwordGuesses,
  passwordsSet,
  guessesOnADirectLink,
  unreadDownloads,
  slowReaders,
  rangeStorms,
  rangesOfBytes,
  archives,
  renamedArchives,
  searches,
  slowNames,
  copies,
  directLinks,
  fullDirectLinks,
  expiries,
  noDescriptors,
]
