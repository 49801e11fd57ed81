/**
 * Output that cannot be written, on a full disk or into a pipe without a reader, is lost, but does
 * not end the service.
 */
export function ignoreStdioErrors(): void {
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {})
}
