export { type BlobDigest, BlobDigester, digestOf } from './blob-digest.ts'
export {
  type BlobInfo,
  type BlobName,
  type BlobSender,
  type BlobStage,
  type BlobStore,
  type BlobStoreUsage,
  type DirectSends,
  type QuarantinedFile,
  type QuarantineReason,
  quarantineReasons,
  type ReportsHealth,
  type ReportsHolders,
  readsWhole,
  reportsHealth,
  reportsHolders,
  type SentBytes,
  type StoreHealth,
  sendsDirectly,
  type WholeBytes,
  type WholeReads,
} from './blob-store.ts'
export {
  Collector,
  type CollectorFigures,
  type CollectorOptions,
  type CollectorPause,
  type CollectResult,
} from './collector.ts'
export { copyKey, nameOfCopy } from './copy-names.ts'
export { BlobFault, type BlobFaultCode } from './errors.ts'
export { MemoryBlobStore, type MemoryBlobStoreOptions } from './memory-blob-store.ts'
export { tombstoneRetentionMsDefault } from './memory-log.ts'
export { pinMsMax } from './pins.ts'
export {
  batchBytesMax,
  batchCopiesMax,
  type GroupVersion,
  type LogEntry,
  type LogPosition,
  type NodeStore,
  type PlacedBlobStore,
  type PlacedCommit,
  type PlacedStage,
  type PullAnswer,
  type PullQuery,
  type PutOptions,
  type ReplicationSource,
  type SealedContent,
  type SmallBlob,
  type StageOptions,
  type StorageNode,
  type StoreNotes,
  smallBlobBytesMax,
  type Verification,
} from './placed-blob-store.ts'
export { putSmall } from './put-small.ts'
export { readBatch } from './read-batch.ts'
export { releaseBuffer } from './release-buffer.ts'
export { restoreCopy } from './restore-copy.ts'
export {
  Scrubber,
  type ScrubberOptions,
  type ScrubberTuning,
  type ScrubFigures,
  type ScrubResult,
} from './scrubber.ts'
