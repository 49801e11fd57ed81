/**
 * An actor host that joins, serves and leaves repeatedly: a separate process, started with an actor
 * host's settings. It prints how often it has joined.
 */
import { readFileSync } from 'node:fs'
import { startActorHost } from '@holdfast/actor-host'
import { connectServers } from '@holdfast/cluster'
import { readClusterConfig } from '@holdfast/config'
import { createLog } from '@holdfast/http-kit'
import { systemClock } from '@holdfast/kernel'

const { config, secrets } = readClusterConfig(process.env, {
  readSecret: (path) => readFileSync(path, 'utf8'),
})
const log = createLog({ level: 'silent' })
let ending = false
process.on('SIGTERM', () => {
  ending = true
})
for (let time = 1; !ending; time++) {
  const host = await startActorHost({
    config,
    secrets,
    settings: [],
    log,
    clock: systemClock,
    connect: connectServers,
  })
  console.log(time)
  await new Promise((resolve) => setTimeout(resolve, 500))
  await host.close()
}
