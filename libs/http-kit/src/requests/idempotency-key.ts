import { RefusalError } from '@holdfast/kernel'
import type { FastifyRequest } from 'fastify'

/** 1 to 255 printable characters of ASCII; the first one is no space. */
const keyForm = /^[\x21-\x7e][\x20-\x7e]{0,254}$/

/** @throws RefusalError error-idempotencyKey */
export function idempotencyKeyOf(request: FastifyRequest): string | undefined {
  const key = request.headers['idempotency-key']
  if (key === undefined) return undefined
  if (typeof key !== 'string' || !keyForm.test(key)) throw new RefusalError('error-idempotencyKey')
  return key
}
