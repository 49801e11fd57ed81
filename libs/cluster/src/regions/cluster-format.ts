/**
 * The format of what all processes of an installation share: rows, keys, and what they mean.
 *
 * A release whose writes earlier releases would misread raises the format first: it claims a row
 * `setting/format/<n>` with its version. A row is never changed, and no number is left out. A
 * release refuses to start if the row of the next format exists.
 */
import { StartFault, version } from '@holdfast/bootstrap'
import { clusterFormatPrefix } from '../row-keys.ts'

/** What this release reads and writes. The first one has no row. */
const clusterFormat = 1

/** @throws StartFault `DATA_FORMAT` when a newer release has raised the format. */
export async function assertClusterFormat(
  read: (key: string) => Promise<Uint8Array | undefined>,
  format = clusterFormat,
): Promise<void> {
  const raised = await read(`${clusterFormatPrefix}${format + 1}`)
  if (raised !== undefined)
    throw new StartFault(
      'DATA_FORMAT',
      `release ${Buffer.from(raised)} has raised the format of this installation to ${format + 1} or more; release ${version} reads up to ${format}: start release ${Buffer.from(raised)} or a later one`,
    )
}
