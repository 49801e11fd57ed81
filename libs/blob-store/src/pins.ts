/**
 * How long a stored blob is protected from the collector while nothing refers to it yet, ms: longer
 * than it takes to name it, shorter than the grace of unreferenced blobs. None pins longer at a
 * time: after a restart, which forgets pins, a node waits for as long before it collects.
 */
export const pinMsMax = 10 * 60_000
