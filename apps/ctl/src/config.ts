import { X509Certificate } from 'node:crypto'
import type { AdminAccess } from './admin-client.ts'
import { UsageFault } from './command.ts'

/**
 * Where the admin host is: the variables that the service reads, or `--admin`.
 *
 * @param admin the value of `--admin`: an address with or without `http://` or `https://`.
 * @throws UsageFault when that is no address, or a file cannot be read.
 */
export function adminOf(
  env: NodeJS.ProcessEnv,
  { admin, readSecret }: { admin: string | undefined; readSecret: (path: string) => string },
): AdminAccess {
  const token = env.HOLDFAST_ADMIN_TOKEN || fileOf(env, 'HOLDFAST_ADMIN_TOKEN_FILE', readSecret)?.trim()
  const authority = fileOf(env, 'HOLDFAST_TLS_CA', readSecret)
  if (authority !== undefined) checkAuthority(authority)
  const scheme = schemeOf(env.HOLDFAST_ADMIN_TLS, authority)
  const url = addressOf(admin ?? hostOf(env), { scheme, from: admin === undefined ? 'settings' : '--admin' })
  const isChosen = admin === undefined || admin.includes('://') || env.HOLDFAST_ADMIN_TLS === 'off'
  if (token !== undefined && !isChosen && !isSafe(new URL(url)))
    throw new UsageFault(
      `the token would go to ${admin} without TLS: set HOLDFAST_TLS_CA to the file of the cluster's authority, or write http://${admin}`,
    )
  return { url, token, operator: env.USER || env.LOGNAME, ca: authority }
}

/** By TLS, or without leaving this machine. */
function isSafe({ protocol, hostname }: URL): boolean {
  return protocol === 'https:' || /^(localhost|127\.[\d.]+|\[::1\])$/.test(hostname)
}

/** A process that offers both ways is asked by TLS if it can be verified. */
function schemeOf(mode: string | undefined, authority: string | undefined): 'http' | 'https' {
  if (mode === 'preferred' || mode === 'required') return 'https'
  return mode === 'off' || authority === undefined ? 'http' : 'https'
}

/** The content of the file that a variable names. */
function fileOf(
  env: NodeJS.ProcessEnv,
  variable: 'HOLDFAST_ADMIN_TOKEN_FILE' | 'HOLDFAST_TLS_CA',
  readSecret: (path: string) => string,
): string | undefined {
  const file = env[variable]
  if (!file) return undefined
  try {
    return readSecret(file)
  } catch (error) {
    throw new UsageFault(`${variable} cannot be read: ${(error as Error).message}`)
  }
}

function checkAuthority(pem: string): void {
  try {
    new X509Certificate(pem)
  } catch (error) {
    throw new UsageFault(`HOLDFAST_TLS_CA is no file of certificates: ${(error as Error).message}`)
  }
}

/**
 * People write `127.0.0.1:8090`, which as a URL has no scheme, and `localhost:8090`, whose scheme
 * would be `localhost`.
 */
function addressOf(
  text: string,
  { scheme, from }: { scheme: 'http' | 'https'; from: '--admin' | 'settings' },
): string {
  const url = URL.parse(text.includes('://') ? text : `${scheme}://${text}`)
  if (url !== null && /^https?:$/.test(url.protocol) && url.username === '' && url.password === '')
    return url.href
  const source = from === '--admin' ? '--admin' : 'HOLDFAST_ADMIN_BIND and HOLDFAST_ADMIN_PORT'
  throw new UsageFault(`${source}: ${text} is no address, write it like 127.0.0.1:8090`)
}

function hostOf(env: NodeJS.ProcessEnv): string {
  const bind = env.HOLDFAST_ADMIN_BIND || env.HOLDFAST_BIND || '127.0.0.1'
  const host = { '0.0.0.0': '127.0.0.1', '::': '[::1]' }[bind] ?? (bind.includes(':') ? `[${bind}]` : bind)
  return `${host}:${env.HOLDFAST_ADMIN_PORT || '8090'}`
}
