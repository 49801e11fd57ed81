import { UsageFault } from './command.ts'

/**
 * Where the admin host is: the variables that the service reads, or `--admin`.
 *
 * @param admin the value of `--admin`: an address with or without `http://`.
 * @throws UsageFault when that is no address, or the token's file cannot be read.
 */
export function adminOf(
  env: NodeJS.ProcessEnv,
  { admin, readSecret }: { admin: string | undefined; readSecret: (path: string) => string },
): { url: string; token: string | undefined; operator: string | undefined } {
  const file = env.HOLDFAST_ADMIN_TOKEN_FILE
  const token = env.HOLDFAST_ADMIN_TOKEN || (file ? tokenIn(file, readSecret) : undefined)
  const url = addressOf(admin ?? urlOf(env), admin === undefined ? 'settings' : '--admin')
  return { url, token, operator: env.USER || env.LOGNAME }
}

function tokenIn(file: string, readSecret: (path: string) => string): string {
  try {
    return readSecret(file).trim()
  } catch (error) {
    throw new UsageFault(`HOLDFAST_ADMIN_TOKEN_FILE cannot be read: ${(error as Error).message}`)
  }
}

/**
 * People write `127.0.0.1:8090`, which as a URL has no scheme, and `localhost:8090`, whose scheme
 * would be `localhost`.
 */
function addressOf(text: string, from: '--admin' | 'settings'): string {
  const url = URL.parse(text.includes('://') ? text : `http://${text}`)
  if (url !== null && /^https?:$/.test(url.protocol) && url.username === '' && url.password === '')
    return url.href
  const source = from === '--admin' ? '--admin' : 'HOLDFAST_ADMIN_BIND and HOLDFAST_ADMIN_PORT'
  throw new UsageFault(`${source}: ${text} is no address, write it like http://127.0.0.1:8090`)
}

function urlOf(env: NodeJS.ProcessEnv): string {
  const bind = env.HOLDFAST_ADMIN_BIND || env.HOLDFAST_BIND || '127.0.0.1'
  const host = { '0.0.0.0': '127.0.0.1', '::': '[::1]' }[bind] ?? (bind.includes(':') ? `[${bind}]` : bind)
  return `http://${host}:${env.HOLDFAST_ADMIN_PORT || '8090'}`
}
