/**
 * nginx with sendfile, where it is installed: what a plain file server without checks reaches on
 * this machine.
 */
import { spawn } from 'node:child_process'
import { mkdtempSync, writeFileSync } from 'node:fs'
import { userInfo } from 'node:os'
import { join } from 'node:path'
import { freePort } from '../infra/servers/ports.ts'
import { plain, stop } from './processes.ts'

export interface Nginx {
  pids: number[]
  /** A file of this size, made at its first use. */
  file(bytes: number): URL
  stop(): Promise<void>
}

/** @returns undefined without one. */
export async function startNginx(directory: string): Promise<Nginx | undefined> {
  const home = mkdtempSync(join(directory, 'nginx-'))
  const port = await freePort()
  const log = join(home, 'error.log')
  const configuration = join(home, 'nginx.conf')
  writeFileSync(
    configuration,
    `daemon off; pid ${join(home, 'pid')}; error_log ${log}; ${process.getuid?.() === 0 ? `user ${userInfo().username};` : ''}
worker_processes 2;
events { worker_connections 1024; }
http {
  access_log off; sendfile on; tcp_nodelay on; keepalive_requests 100000000;
  client_body_temp_path ${home}; proxy_temp_path ${home}; fastcgi_temp_path ${home}; uwsgi_temp_path ${home}; scgi_temp_path ${home};
  server { listen 127.0.0.1:${port}; root ${home}; }
}
`,
  )
  const child = spawn('nginx', ['-p', home, '-c', configuration, '-e', log], { stdio: 'ignore', env: plain })
  const started = new Promise<boolean>((resolve) => {
    child.once('spawn', () => resolve(true))
    child.once('error', () => resolve(false))
  })
  if (!(await started)) return undefined
  const url = new URL(`http://127.0.0.1:${port}`)
  while (!(await answers(url))) {
    if (child.exitCode !== null) throw new Error(`nginx ended with ${child.exitCode}, see ${log}`)
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  const made = new Set<number>()
  return {
    pids: [child.pid ?? 0],
    file(bytes) {
      if (!made.has(bytes)) writeFileSync(join(home, String(bytes)), Buffer.alloc(bytes, 'holdfast'))
      made.add(bytes)
      return new URL(`/${bytes}`, url)
    },
    stop: () => stop(child),
  }
}

async function answers(url: URL): Promise<boolean> {
  return fetch(url).then(
    () => true,
    () => false,
  )
}
