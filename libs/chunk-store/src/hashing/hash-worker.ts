/** Hashes buffers of the shared memory, for the thread that started this one. */
import { parentPort, workerData } from 'node:worker_threads'
import { HashLanes } from './hash-lanes.ts'
import { type HashRequest, type HashWorkerData, laneCount } from './hashing.ts'

/**
 * How long bytes wait for those of other uploads: an empty lane costs as much as a full one. An
 * upload waits this long only once, at its end; until then its other buffers are being filled.
 */
const patienceMs = 8

const { memory, streams } = workerData as HashWorkerData
const lanes = new HashLanes(memory)
let next: NodeJS.Immediate | undefined
let waiting = false

parentPort?.on('message', (requests: HashRequest[]) => {
  for (const request of requests) lanes.ask(request)
  plan()
})

function plan(): void {
  const answers = lanes.answers()
  if (answers.length > 0) parentPort?.postMessage(answers)
  const since = lanes.waitingSince
  if (since === undefined || next !== undefined) return
  const waitMs = isFull() ? 0 : since + patienceMs - performance.now()
  if (waitMs <= 0) next = setImmediate(work)
  else if (!waiting) {
    waiting = true
    setTimeout(again, waitMs)
  }
}

/** Every usable lane will be used. */
function isFull(): boolean {
  return lanes.ready >= Math.min(laneCount, Atomics.load(streams, 0))
}

function again(): void {
  waiting = false
  plan()
}

/** One step, then what has arrived meanwhile. */
function work(): void {
  next = undefined
  lanes.step()
  plan()
}
