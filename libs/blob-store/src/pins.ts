/**
 * How long a stored blob is protected from the collector while nothing refers to it yet, ms: longer
 * than a caller needs to write the reference, shorter than the grace of unreferenced blobs. No pin
 * may be longer. Pins are lost at a restart, so a node waits this long before it collects again.
 */
export const pinMsMax = 10 * 60_000
