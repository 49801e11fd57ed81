/** Accounts of a cluster, and the operator's actions on them. */
import assert from 'node:assert/strict'
import { Semaphore } from '../../../libs/actor-runtime/src/queues/semaphore.ts'
import { send } from '../../acceptance/http.ts'
import type { ClusterRegion } from '../local-cluster.ts'

export interface Person {
  id: string
  token: string
  root: string
  /** Where the account was born. */
  region: string
}

/** A new premium account of this region. */
export async function arrive(region: ClusterRegion): Promise<Person> {
  const { id, token, rootFolder } = await dataOf<{ id: string; token: string; rootFolder: string }>(
    `${region.api}/accounts`,
    { method: 'POST', json: {} },
  )
  await setAccount(region, { id, settings: { tier: 'premium' } })
  return { id, token, root: rootFolder, region: region.code }
}

/** Fewer than the admin host has connections. */
const operators = new Semaphore(16)

export function setAccount(
  region: ClusterRegion,
  { id, settings }: { id: string; settings: object },
): Promise<void> {
  return operators.run(async () => {
    await dataOf(`${region.admin}/admin/accounts/${id}`, { method: 'POST', json: settings })
  })
}

export async function fileCountOf(region: ClusterRegion, { id, token }: Person): Promise<number> {
  const { statsCurrent } = await dataOf<{ statsCurrent: { fileCount: number } }>(
    `${region.api}/accounts/${id}`,
    { token },
  )
  return statsCurrent.fileCount
}

export async function dataOf<T>(
  url: string,
  { method = 'GET', json, token }: { method?: string; json?: object; token?: string },
): Promise<T> {
  const received = await send(url, {
    method,
    headers: {
      ...(json === undefined ? {} : { 'content-type': 'application/json' }),
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
    },
    ...(json === undefined ? {} : { body: JSON.stringify(json) }),
  })
  assert.equal(received.code, 200, `${method} ${url} answered ${received.code} ${received.body.toString()}`)
  return (JSON.parse(received.body.toString()) as { data: T }).data
}
