/** Where the admin host is: the same variables as the service reads, or `--admin`. */
export type Environment = Readonly<Record<string, string | undefined>>

/** @param admin what `--admin` said. */
export function adminOf(
  env: Environment,
  { admin, readSecret }: { admin: string | undefined; readSecret: (path: string) => string },
): { url: string; token: string | undefined } {
  const file = env.HOLDFAST_ADMIN_TOKEN_FILE
  const token = env.HOLDFAST_ADMIN_TOKEN || (file ? readSecret(file).trim() : undefined)
  return { url: admin ?? urlOf(env), token }
}

function urlOf(env: Environment): string {
  const bind = env.HOLDFAST_ADMIN_BIND || env.HOLDFAST_BIND || '127.0.0.1'
  const host = { '0.0.0.0': '127.0.0.1', '::': '[::1]' }[bind] ?? (bind.includes(':') ? `[${bind}]` : bind)
  return `http://${host}:${env.HOLDFAST_ADMIN_PORT || '8090'}`
}
