/**
 * What cannot be printed, on a full disk or into a pipe that nobody reads, is lost; it ends no
 * service.
 */
export function losePrints(): void {
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {})
}
