import type { AccountRequest } from './gen/holdfast/account/v1/request.ts'

/** What a request asks of an account. */
export type AccountOperation = NonNullable<AccountRequest['operation']>
