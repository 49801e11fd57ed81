/** Started by `run-clients.ts` inside the namespaces. Prints one line of JSON per step. */
import { clients } from './cases.ts'
import { play, type Row } from './steps.ts'
import { type Tools, World } from './world.ts'

/** Concurrent clients. */
const atOnce = 3

const { tools, full, only } = JSON.parse(process.argv[2] as string) as {
  tools: Tools
  full: boolean
  only: string
}

const world = await World.open(tools)
try {
  const queue = clients.filter(({ name }) => name.includes(only))
  const worker = async () => {
    for (let client = queue.shift(); client !== undefined; client = queue.shift()) {
      const rows: Row[] = []
      await play(client, { world, full, report: (row) => rows.push(row) })
      // A client's rows stay together.
      for (const row of rows) console.log(JSON.stringify(row))
    }
  }
  await Promise.all(Array.from({ length: atOnce }, worker))
} finally {
  await world.close()
}
