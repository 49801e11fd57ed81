/**
 * Takes what alertmanagers send: `receiver-program.ts <address> <port>`. For each alert it prints
 * the path that it was sent to, its name and its region.
 */
import { createServer } from 'node:http'
import { text } from 'node:stream/consumers'

interface Notification {
  alerts: { labels: Record<string, string> }[]
}

const [address, port] = process.argv.slice(2)
const server = createServer((request, response) => {
  void text(request).then((body) => {
    const { alerts } = JSON.parse(body) as Notification
    for (const { labels } of alerts) console.log(request.url, labels.alertname, labels.region)
    response.end()
  })
})
server.listen(Number(port), address)
