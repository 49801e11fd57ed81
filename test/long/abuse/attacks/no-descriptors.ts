/**
 * No descriptor is left, although connections are limited: the limit of the running process is
 * lowered to what it has open while accounts write so much that the stores need new files. Nothing
 * acknowledged may be lost, and everything must be as before without a restart once the limit is
 * back.
 */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import type { Attack } from '../attack.ts'
import { busyWriters, writeMuch, writersAheadMs } from './busy-writers.ts'

const run = promisify(execFile)
const openFilesMax = 1_024

export const noDescriptors: Attack = {
  name: 'no descriptor is left',
  byOperator: true,
  short: true,
  prepare: busyWriters,
  run: async (hostile) => {
    const { pid } = hostile.target
    const writing = writeMuch(hostile)
    await hostile.pause(writersAheadMs)
    await limitTo(pid, 16)
    try {
      await writing
    } finally {
      await limitTo(pid, openFilesMax)
    }
  },
}

async function limitTo(pid: number | undefined, files: number): Promise<void> {
  await run('prlimit', ['--pid', String(pid), `--nofile=${files}:`])
}
