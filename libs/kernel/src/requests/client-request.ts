/**
 * The id of the client's request that is being handled. It is sent with each request to another
 * process, so that all of them log the same id.
 */
import { AsyncLocalStorage } from 'node:async_hooks'

const current = new AsyncLocalStorage<string | undefined>()

/** @param id undefined: the work does not belong to a request, or to an unknown one. */
export function forClientRequest<T>(id: string | undefined, work: () => T): T {
  return current.run(id, work)
}

/** Undefined outside of requests. */
export function clientRequest(): string | undefined {
  return current.getStore()
}

/** Whether it is safe in a header and in a line of the log. */
export function isClientRequest(id: unknown): id is string {
  return typeof id === 'string' && /^[A-Za-z0-9._:/+=@-]{1,128}$/.test(id)
}
