import { cp, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'

/** A directory of the test alone, removed with it. */
export async function directory(t: Test): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), 'holdfast-journal-level-'))
  t.teardown(() => rm(path, { recursive: true, force: true }))
  return path
}

/**
 * What a crash at this moment would leave: the files as they are, while their process still has
 * them open.
 */
export async function crashImage(t: Test, path: string): Promise<string> {
  const image = await directory(t)
  await cp(path, image, { recursive: true })
  return image
}
