import { chmodSync, readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { dataDir, startProcess, uploadText } from './run.ts'

t.test(
  'the data directory is readable only by its owner, including files of an earlier release',
  async (t) => {
    const path = dataDir(t)
    for (let round = 1; round <= 2; round++) {
      const service = await startProcess(path)
      await uploadText(service.upload, { name: 'a', text: 'some'.repeat(100_000) })
      const all = readdirSync(path, { recursive: true, encoding: 'utf8' })
      const open = all.filter((name) => (statSync(join(path, name)).mode & 0o077) !== 0)
      t.same(open, [], `after start ${round}`)
      t.ok(all.length > 20, `${all.length} files and directories`)
      service.process.kill()
      await service.ended
      for (const name of readdirSync(path, { recursive: true, encoding: 'utf8' })) {
        const at = join(path, name)
        chmodSync(at, statSync(at).isFile() ? 0o644 : 0o755)
      }
    }
  },
)
