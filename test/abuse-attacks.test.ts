/** A short form of `npm run test:long -- --only abuse`: some attacks, for a short time each. */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import t from 'tap'
import { abuseCommand } from './long/abuse/own-network.ts'

t.test('the attacks of the short form are held', async (t) => {
  const { command, args, env } = abuseCommand(['--short', '--seconds', '4'])
  const played = await promisify(execFile)(command, args, { env }).catch((error) => error)
  const { stdout, stderr, code = 0 } = played as { stdout: string; stderr: string; code?: number }
  t.comment(stdout)
  t.equal(code, 0, stderr)
})
