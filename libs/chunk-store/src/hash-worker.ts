/** Hashes slots of the shared memory; answers every request in its order. */
import { parentPort, workerData } from 'node:worker_threads'
import { digestRequest, dropRequest, type HashRequest, IdHasher } from './hashing.ts'

const memory = Buffer.from(workerData as SharedArrayBuffer)
const hashers = new Map<number, IdHasher>()

parentPort?.on('message', ([stream, start, bytes]: HashRequest) => {
  const hasher = hashers.get(stream) ?? new IdHasher()
  if (start >= 0) {
    hashers.set(stream, hasher)
    hasher.update(memory.subarray(start, start + bytes))
    parentPort?.postMessage(0)
    return
  }
  hashers.delete(stream)
  if (start === digestRequest) parentPort?.postMessage(hasher.digest())
  else if (start === dropRequest) parentPort?.postMessage(0)
})
