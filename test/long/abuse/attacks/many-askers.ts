/**
 * Networks that each ask for small things, one after the other on four connections, as fast as they
 * are answered. Each network has an account of its own, and each connection a folder.
 */
import { sha256 } from '../../../acceptance/world.ts'
import type { Attack, AttackInput, Stage } from '../attack.ts'
import { address, type HostileClient, json, request } from '../hostile.ts'

const networks = 40
const connections = 160

interface Own {
  token: string
  folder: string
}

/** Each takes a millisecond at most; so very many of them wait in the same turns of the loop. */
export const smallRequests: Attack = {
  name: 'small requests: 160 connections of 40 networks',
  prepare: oneFolderEach,
  run: (hostile) =>
    askAgainAndAgain(hostile, ({ token, folder }, turn) => {
      switch (turn % 5) {
        case 0:
          return request('/status')
        case 1:
          return request('/accounts/getid', { headers: [`Authorization: Bearer ${token}`] })
        case 2:
          return update(folder, 'description', `${turn}`, token)
        case 3:
          return request(`/web/contents/${folder}`)
        default:
          return request(`/d/${folder}`)
      }
    }),
}

/** Each password is hashed twice: when it is set, and when the folder is opened with it. */
export const passwordsSet: Attack = {
  name: 'passwords of folders set and opened: 160 connections of 40 networks',
  prepare: oneFolderEach,
  run: (hostile) =>
    askAgainAndAgain(hostile, ({ token, folder }, turn) => {
      const password = `password ${turn >> 1}`
      if (turn % 2 === 0) return update(folder, 'password', password, token)
      return request(`/web/contents/${folder}?password=${sha256(password)}`)
    }),
}

function update(folder: string, attribute: string, attributeValue: string, token: string): string {
  return json(`/contents/${folder}/update`, JSON.stringify({ attribute, attributeValue }), token, 'PUT')
}

async function oneFolderEach({ world }: Stage): Promise<AttackInput> {
  const owners = await Promise.all(
    Array.from({ length: networks }, (_, number) => world(address(26, number)).guest()),
  )
  const ids: string[] = []
  for (let number = 0; number < connections; number++)
    ids.push((await (owners[number % networks] as (typeof owners)[0]).folder({ public: true })).id)
  return { tokens: owners.map(({ token }) => token), ids }
}

async function askAgainAndAgain(
  hostile: HostileClient,
  requestOf: (own: Own, turn: number) => string,
): Promise<void> {
  const { tokens = [], ids = [] } = hostile.prepared
  await hostile.each(connections, async (number) => {
    const own = { token: tokens[number % networks] ?? '', folder: ids[number] ?? '' }
    const socket = hostile.connect('api', { from: address(26, number % networks), answers: 'none' })
    let turn = number
    do hostile.sent()
    while ((await hostile.write(socket, requestOf(own, turn++))) && (await hostile.answered(socket)))
    await hostile.pause(50)
  })
}
