/** Where the hosts listen, and the origins that links use. */
import { chosenPorts, urlOf } from '@holdfast/bootstrap'
import type { Config } from '@holdfast/config'

export interface Addresses {
  api: string
  upload: string
  download: string
  admin: string
  web: string
}

export interface ListenAddresses {
  host: string
  adminHost: string
  ports: Record<'api' | 'upload' | 'download' | 'admin', number>
  /** No slash at the end. */
  urls: Addresses
}

export async function listeningOf({ listen, publicUrls }: Config): Promise<ListenAddresses> {
  const { host, adminHost, ...asked } = listen
  const ports = await chosenPorts(asked, host)
  const api = publicUrls.api ?? urlOf(host, ports.api)
  return {
    host,
    adminHost,
    ports,
    urls: {
      api,
      upload: publicUrls.upload ?? urlOf(host, ports.upload),
      download: publicUrls.download ?? urlOf(host, ports.download),
      admin: urlOf(adminHost, ports.admin),
      web: publicUrls.web ?? api,
    },
  }
}
