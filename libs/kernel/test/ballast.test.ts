/** Reserved disk space: taken, released, and never left half filled. */
import { existsSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { Ballast, ballastPath, releaseBallast } from '../src/index.ts'

const MiB = 1024 * 1024

t.test('the space is reserved in one file, and released', async (t) => {
  const directory = t.testdir()
  const path = join(directory, 'ballast')
  t.equal(ballastPath(directory), path)
  let released = 0
  const ballast = new Ballast({ directory, bytes: 2 * MiB, onReleased: () => released++ })
  t.same(await Promise.all([ballast.take(), ballast.take()]), [true, true])
  t.equal(statSync(path).size, 2 * MiB)
  await Promise.all([ballast.release(), ballast.release()])
  t.notOk(existsSync(path))
  t.equal(released, 1)
  const again = ballast.take()
  await ballast.release()
  t.equal(await again, true)
  t.notOk(existsSync(path), 'a release that comes later wins')
})

t.test('an earlier process may have left a part of it, or all', async (t) => {
  const directory = t.testdir()
  writeFileSync(join(directory, 'ballast'), Buffer.alloc(1.5 * MiB))
  t.equal(await new Ballast({ directory, bytes: 2 * MiB }).take(), true)
  t.equal(statSync(join(directory, 'ballast')).size, 2 * MiB)
  t.equal(await releaseBallast(directory), true)
  t.equal(await releaseBallast(directory), false)
})

t.test('without bytes there is no file', async (t) => {
  const directory = t.testdir()
  t.equal(await new Ballast({ directory, bytes: 0 }).take(), true)
  t.notOk(existsSync(join(directory, 'ballast')))
})

t.test('space that cannot be reserved as a whole is released, and retried', async (t) => {
  const disk = new FullDisk(MiB)
  const { ballast, faults } = onDisk(t, disk)
  t.equal(await ballast.take(), false)
  t.same(faults, ['no space'])
  t.equal(disk.bytes, 0, 'no part of it takes the last bytes')
  disk.room = 2 * MiB
  t.equal(await ballast.take(), true)
  t.equal(disk.bytes, 2 * MiB)
})

t.test('a release that fails is reported and repeated', async (t) => {
  const disk = new FullDisk(2 * MiB)
  const { ballast, faults } = onDisk(t, disk)
  await ballast.take()
  disk.fails = true
  await ballast.release()
  t.same(faults, ['the disk fails'])
  disk.fails = false
  await ballast.release()
  await ballast.settled()
  t.equal(disk.bytes, 0)
})

function onDisk(t: Test, disk: FullDisk) {
  const faults: string[] = []
  const onFault = ({ message }: Error) => faults.push(message)
  return { ballast: new Ballast({ directory: t.testdir(), bytes: 2 * MiB, disk, onFault }), faults }
}

class FullDisk {
  room: number
  bytes = 0
  fails = false

  constructor(room: number) {
    this.room = room
  }

  async open() {
    return {
      size: async () => this.bytes,
      write: async (bytes: Uint8Array, position: number) => {
        if (position + bytes.length > this.room) throw new Error('no space')
        this.bytes = position + bytes.length
      },
      sync: async () => {},
      close: async () => {},
    }
  }

  async remove(): Promise<void> {
    if (this.fails) throw new Error('the disk fails')
    this.bytes = 0
  }
}
