/** Cases that need the service itself at the address, and its default settings for tests. */
const directCases: readonly [begin: string, why: string][] = [
  ['rate limits and bans: ', 'they run against services of their own'],
  [
    'POST /accounts: two concurrent requests for one address get one account',
    'an address gets few mails where limits are in force',
  ],
  // The `Host` that they send is of no site of the proxy.
  ['real clients: gofilepy: servers', 'another domain'],
  ['POST {upload_url}/uploadfile: every regional host accepts uploads', 'another domain'],
  // A proxy answers these itself, or they are written to a bare socket.
  ['POST {upload_url}/uploadfile: a chunked body without a length', 'a bare socket'],
  ['POST {upload_url}/uploadfile: an early refusal comes before', 'a bare socket'],
  ['POST {upload_url}/uploadfile: changes during the upload', 'a bare socket'],
  ['POST {upload_url}/uploadfile: a client that expects 100 Continue', 'a bare socket'],
  ['answers, in every request: bodies end at 256 KiB', 'a bare socket'],
  ['answers, in every request: bytes that are no HTTP', 'a bare socket'],
  ['answers, in every request: every invalid input', 'a proxy refuses some of it'],
  ['answers, in every request: an error reveals no internals', 'a proxy refuses the address'],
]

/** Whether a proxy in front leaves the case as it is. */
export function worksBehindProxy(name: string): boolean {
  return !directCases.some(([begin]) => name.startsWith(begin))
}
