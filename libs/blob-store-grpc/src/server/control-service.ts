/**
 * The gRPC side: every call goes to the store; the trailer names the fault that the store throws.
 */
import {
  Metadata,
  type ServerUnaryCall,
  type ServerWritableStream,
  type sendUnaryData,
  type status,
} from '@grpc/grpc-js'
import { BlobFault, type GroupVersion, type PullAnswer, type PullQuery } from '@holdfast/blob-store'
import type {
  InventoryRequest,
  InventoryResponse,
  LogEntry,
  PullRequest,
  PullResponse,
  StorageServiceServer,
} from '@holdfast/wire/storage'
import type { CallNotes } from '../client-requests.ts'
import { blobNameOf, contentId, infoOfMessage, messageOf, uploadIdOf } from '../copies.ts'
import { faultKey, faultOfStore, grpcStatusOf } from '../faults.ts'
import type { OpenStages } from './open-stages.ts'
import type { ServedStore } from './served-store.ts'

export interface ServiceDeps {
  store: ServedStore
  stages: OpenStages
  notes: CallNotes
}

/** Copies in one message of an inventory. */
const inventoryBatch = 1000

export function controlService({ store, stages, notes }: ServiceDeps): StorageServiceServer {
  const unary =
    <Q extends object, A>(answer: (request: Q, call: ServerUnaryCall<Q, A>) => Promise<A>) =>
    (call: ServerUnaryCall<Q, A>, done: sendUnaryData<A>) => {
      const path = call.getPath()
      const kind = () => path.slice(path.lastIndexOf('/') + 1)
      notes
        .answering(call.metadata, { name: path, kind }, () => answer(call.request, call))
        .then(
          (response) => done(null, response),
          (error) => done(refusal(error)),
        )
    }

  return {
    begin: unary(async (request) => {
      const stage = await store.stage({
        uploadId: uploadIdOf(request.uploadId),
        placement: placementOf(request),
        ...(request.expectedBytes === undefined ? {} : { expectedBytes: request.expectedBytes }),
      })
      stages.add(stage)
      return {}
    }),

    commit: unary(async ({ uploadId, pinMs, noDedup, createdMs }) => {
      const options = {
        pinMs,
        asNew: noDedup,
        ...(createdMs === undefined ? {} : { createdMs }),
      }
      const info = (await stages.commit(uploadIdOf(uploadId), options)) ?? (await store.committed(uploadId))
      if (info === undefined) throw new BlobFault('NOT_FOUND', 'no such upload is open or committed here')
      return { copy: messageOf(info) }
    }),

    abort: unary(async ({ uploadId }) => {
      await stages.abort(uploadIdOf(uploadId))
      return {}
    }),

    committed: unary(async ({ uploadId }) => {
      const info = await store.committed(uploadIdOf(uploadId))
      return { copy: info && messageOf(info) }
    }),

    pin: unary(async (request) => {
      const { placementVersion, ttlMs, whole } = request
      const pinned = await store.pin(blobNameOf(request), {
        ttlMs,
        whole,
        ...(placementVersion === 0 ? {} : { placement: placementOf(request) }),
      })
      return { pinned }
    }),

    stat: unary(async (request) => {
      const info = await store.stat(blobNameOf(request))
      return { copy: info && messageOf(info) }
    }),

    delete: unary(async (request) => ({ deleted: (await store.delete(blobNameOf(request))) === 'deleted' })),

    find: unary(async ({ id }) => ({ copies: (await store.find(contentId(id))).map(messageOf) })),

    copyFrom: unary(async (request, call) => {
      if (store.copyFrom === undefined || request.copy === undefined)
        throw new BlobFault('INVALID', 'this node does not copy from others')
      const stop = new AbortController()
      call.once('cancelled', () => stop.abort())
      const info = await store.copyFrom(request.source, infoOfMessage(request.copy), {
        pinMs: request.pinMs,
        placement: placementOf(request),
        signal: stop.signal,
      })
      return { copy: messageOf(info) }
    }),

    pull: unary(async (request) => pullResponse(await store.pull(pullOf(request)))),

    deleted: unary(async (request) => ({ deletedMs: await store.deletedMs(blobNameOf(request)) })),

    inventory: (call) => {
      void sendInventory(store, call)
    },

    usage: unary(async () => store.usage()),
  }
}

async function sendInventory(
  store: ServedStore,
  call: ServerWritableStream<InventoryRequest, InventoryResponse>,
): Promise<void> {
  try {
    const groups = call.request.placementGroups
    let batch: InventoryResponse = { copies: [] }
    const send = async () => {
      if (!call.write(batch)) await whenDrained(call)
      batch = { copies: [] }
    }
    for await (const info of store.inventory(groups.length === 0 ? {} : { groups })) {
      if (call.cancelled) return
      if (batch.copies.push(messageOf(info)) >= inventoryBatch) await send()
    }
    if (batch.copies.length > 0) await send()
    call.end()
  } catch (error) {
    call.emit('error', refusal(error))
  }
}

function whenDrained(call: ServerWritableStream<InventoryRequest, InventoryResponse>): Promise<void> {
  return new Promise((resolve, reject) => {
    const ended = () => {
      call.off('drain', room)
      reject(new BlobFault('CANCELLED', 'the caller has cancelled'))
    }
    const room = () => {
      call.off('cancelled', ended)
      resolve()
    }
    call.once('drain', room)
    call.once('cancelled', ended)
  })
}

function refusal(error: unknown): { code: status; details: string; metadata: Metadata } {
  const fault = faultOfStore(error)
  const metadata = new Metadata()
  metadata.set(faultKey, fault.code)
  return { code: grpcStatusOf(fault), details: fault.message, metadata }
}

function placementOf(request: { placementGroup: number; placementVersion: number }): GroupVersion {
  return { group: request.placementGroup, version: request.placementVersion }
}

function pullOf({ storeIncarnation, after, limit, placementGroups }: PullRequest): PullQuery {
  return {
    limit,
    ...(storeIncarnation.length === 0
      ? {}
      : { after: { store: uploadIdOf(storeIncarnation), sequence: after } }),
    ...(placementGroups.length === 0 ? {} : { groups: placementGroups }),
  }
}

function pullResponse(pulled: PullAnswer): PullResponse {
  if (pulled.kind === 'unknown position')
    return {
      storeIncarnation: Buffer.from(pulled.now.store),
      entries: [],
      through: pulled.now.sequence,
      unknownPosition: true,
      behind: 0,
      nowMs: pulled.nowMs,
    }
  return {
    storeIncarnation: Buffer.from(pulled.through.store),
    entries: pulled.entries.map(
      (entry): LogEntry => ({
        sequence: entry.sequence,
        deleted: entry.kind === 'deleted',
        copy: messageOf(
          entry.kind === 'committed'
            ? entry.copy
            : { ...entry.copy, size: 0, crc32: 0, createdMs: 0, damaged: undefined },
        ),
      }),
    ),
    through: pulled.through.sequence,
    unknownPosition: false,
    behind: pulled.behind,
    nowMs: pulled.nowMs,
  }
}
