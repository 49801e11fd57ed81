export { type BlobDigest, BlobDigester, blobIdBytes, digestOf, incarnationBytes } from './blob-digest.ts'
export {
  type BlobFacts,
  type BlobName,
  type BlobSender,
  type BlobStage,
  type BlobStore,
  type BlobStoreUsage,
  type DirectSends,
  type QuarantinedFile,
  type QuarantineReason,
  quarantineReasons,
  readsWhole,
  type SentBytes,
  type StoreHealth,
  sendsDirectly,
  type TellsHealth,
  tellsHealth,
  type WholeBytes,
  type WholeReads,
} from './blob-store.ts'
export { type Collected, Collector, type CollectorOptions, type Standstill } from './collector.ts'
export { BlobFault, type BlobFaultCode } from './errors.ts'
export { giveBack } from './given-back.ts'
export { MemoryBlobStore, type MemoryBlobStoreOptions } from './memory-blob-store.ts'
export { tombstoneRetentionMsDefault } from './memory-log.ts'
export type {
  LogEntry,
  LogPosition,
  NodeStore,
  PlacedBlobStore,
  PlacedCommit,
  PlacedStage,
  Placement,
  Pulled,
  ReplicationSource,
  SealedContent,
  StageOptions,
  StorageNode,
  StoreNotes,
  Verification,
} from './placed-blob-store.ts'
export { restoreCopy } from './restore-copy.ts'
export { type Scrubbed, Scrubber, type ScrubberOptions, type ScrubFigures } from './scrubber.ts'
