/**
 * Third-party clients, unmodified and with their default settings, against the service with its
 * own.
 */
import t from 'tap'
import { runClients } from './run-clients.ts'
import { closingLine, linesOf } from './table.ts'

// Includes installing missing clients.
t.setTimeout(900_000)

const clients = [
  ...['GofileIOUploader', 'cyberdrop-dl-patched', 'gallery-dl', 'gofile-tui', 'gofile2'],
  ...['gofilepy', 'gofilepy-api', 'megaloader', 'rclone'],
]
const rows = await runClients({ full: false })

for (const client of clients)
  t.test(client, async (t) => {
    const own = rows.filter((row) => row.client === client)
    for (const line of linesOf(own)) t.comment(line)
    t.ok(own.length > 1, 'was played')
    for (const row of own) t.equal(row.result === 'failed' ? row.detail : '', '', row.what)
  })

t.test('each client is known here', async (t) => {
  t.strictSame([...new Set(rows.map(({ client }) => client))].sort(), clients)
  t.comment(closingLine(rows))
})
