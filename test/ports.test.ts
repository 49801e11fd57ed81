/** Ports for servers with configured ports: no two programs of this machine get the same. */
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'

const root = join(import.meta.dirname, '..')
const launcher = join(root, 'infra/launch.sh')
const module = join(root, 'infra/servers/ports.ts')

t.test('programs whose search begins at the same place get different ports', async (t) => {
  const draw = `Math.random = () => 0.5
    const { freePorts } = await import(${JSON.stringify(module)})
    const ports = [...(await freePorts(4)), ...(await freePorts(60))]`
  const inside = `${draw}
    const { execFileSync } = await import('node:child_process')
    const other = execFileSync(${JSON.stringify(launcher)}, ['--input-type=module', '-e', process.argv[1]])
    console.log(JSON.stringify([ports, JSON.parse(other)]))`
  const alone = `${draw}
    console.log(JSON.stringify(ports))`
  const { stdout } = await promisify(execFile)(launcher, ['--input-type=module', '-e', inside, alone])
  const [first, second] = JSON.parse(stdout) as [number[], number[]]
  t.equal(new Set([...first, ...second]).size, 128)
  for (const port of [...first, ...second]) t.ok(port < 32_768, `${port} is none of outgoing connections`)
})
