import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { logDamage, tableDamage } from '@holdfast/level-files'

/**
 * LevelDB does not compare the checksums of its files through its binding.
 * A directory that does not exist has no damage.
 * @throws Error that begins with `Corruption`
 */
export async function verifyLevelFiles(path: string): Promise<void> {
  const names = await readdir(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return []
    throw error
  })
  for (const name of names) {
    const damageOf = /\.(ldb|sst)$/.test(name) ? tableDamage : name.endsWith('.log') ? logDamage : undefined
    const damage = damageOf?.(await readFile(join(path, name)))
    if (damage !== undefined) throw new Error(`Corruption: ${damage} in ${name}`)
  }
}
