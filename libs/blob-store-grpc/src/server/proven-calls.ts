/**
 * The headers authenticate the caller before a byte of its message is read: otherwise anyone could
 * fill memory with partial messages. The proof covers the message's digest, which is in the headers
 * beside it; the message is compared with the digest when it has arrived.
 */
import { createHash } from 'node:crypto'
import {
  Metadata,
  ServerInterceptingCall,
  type ServerInterceptingCallInterface,
  type ServerInterceptor,
  status,
} from '@grpc/grpc-js'
import { StorageServiceService } from '@holdfast/wire/storage'
import type { ClusterSecret } from '../cluster-secret.ts'
import { faultKey } from '../faults.ts'

/** SHA-256 of the message, base64url. */
const digestKey = 'holdfast-content'
const notTaken = { code: status.UNAVAILABLE, details: 'too many calls are under way, no more are taken' }
const unproven = { code: status.UNAUTHENTICATED, details: 'the caller does not prove the cluster secret' }

/** A message and its bytes, which the proof covers. */
interface ReceivedMessage {
  message: unknown
  bytes: Buffer
}

/** Sets the headers that the interceptor checks. */
export function proveCall(
  metadata: Metadata,
  { secret, path, message }: { secret: ClusterSecret; path: string; message: Uint8Array },
): void {
  const content = digestOf(message)
  metadata.set(digestKey, content)
  metadata.set('authorization', secret.prove({ method: 'grpc', path, content }))
}

/** The service for the interceptor: a read message includes its bytes. */
export const provenDefinition = Object.fromEntries(
  Object.entries(StorageServiceService).map(([name, method]) => [
    name,
    {
      ...method,
      requestDeserialize: (bytes: Buffer): ReceivedMessage => ({
        message: method.requestDeserialize(bytes),
        bytes,
      }),
    },
  ]),
) as unknown as typeof StorageServiceService

/**
 * The handlers behind it receive only calls that are proven and that `beginCall` admits. Peers have
 * the names that `ServerInterceptingCall.getPeer` returns.
 */
export function provenCalls({
  secret,
  onProven,
  onRefused,
  beginCall,
}: {
  secret: ClusterSecret
  /**
   * Called before the message is read. @returns is called at the end; undefined refuses the call
   */
  beginCall: () => (() => void) | undefined
  onProven: (peer: string) => void
  onRefused: (peer: string) => void
}): ServerInterceptor {
  return ({ path }, call: ServerInterceptingCallInterface) => {
    let digest: string | undefined
    let end: (() => void) | undefined
    const refuse = () => {
      call.sendStatus(unproven)
      onRefused(call.getPeer())
    }
    return new ServerInterceptingCall(call, {
      start: (next) =>
        next({
          onReceiveMetadata(metadata, go) {
            digest = textOf(metadata, digestKey)
            const proof = { method: 'grpc', path, content: digest ?? '' }
            if (digest === undefined || !secret.verify(proof, textOf(metadata, 'authorization')))
              return refuse()
            onProven(call.getPeer())
            end = beginCall()
            if (end === undefined) {
              call.sendStatus({ ...notTaken, metadata: unavailable() })
              return
            }
            go(metadata)
          },
          // The library calls this at the end of every call, also of one that was answered.
          onCancel() {
            end?.()
          },
          onReceiveMessage({ message, bytes }: ReceivedMessage, go) {
            if (digestOf(bytes) === digest) go(message)
            else refuse()
          },
        }),
    })
  }
}

/** Answers the caller that nothing was done. */
function unavailable(): Metadata {
  const metadata = new Metadata()
  metadata.set(faultKey, 'UNAVAILABLE')
  return metadata
}

function textOf(metadata: Metadata, key: string): string | undefined {
  return metadata.get(key)[0]?.toString()
}

function digestOf(message: Uint8Array): string {
  return createHash('sha256').update(message).digest('base64url')
}
