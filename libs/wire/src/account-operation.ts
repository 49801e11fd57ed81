import type { AccountRequest } from './gen/holdfast/account/v1/request.ts'

/** The operation of a request to an account. */
export type AccountOperation = NonNullable<AccountRequest['operation']>
