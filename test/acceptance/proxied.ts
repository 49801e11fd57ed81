/** Cases that a proxy in front changes, or a service with its rate limits on. */
type Exceptions = readonly [begin: string, why: string][]

export const directCases: Exceptions = [['rate limits and bans: ', 'they run against services of their own']]

export const unlimitedCases: Exceptions = [
  [
    'POST /accounts: two concurrent requests for one address get one account',
    'an address gets few mails where rate limits are in force',
  ],
]

export function isOf(exceptions: Exceptions, name: string): boolean {
  return exceptions.some(([begin]) => name.startsWith(begin))
}
