import type { PlacedBlobStore, ReplicationSource, StorageNode } from '@holdfast/blob-store'

/** Without `copyFrom` the node cannot be asked to copy from others. */
export type ServedStore = PlacedBlobStore & ReplicationSource & Partial<Pick<StorageNode, 'copyFrom'>>
