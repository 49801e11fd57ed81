/**
 * Loaded before a Holdfast process (`--import`): connections to another region go through the link
 * between the regions. `CLUSTER_ROUTES` is JSON: `{"<host>:<port>": "<host>:<port>"}`. On a real
 * network routers do that.
 */
import { type NetConnectOpts, Socket, type TcpNetConnectOpts } from 'node:net'

const routes = new Map(
  Object.entries(JSON.parse(process.env.CLUSTER_ROUTES ?? '{}') as Record<string, string>),
)
const connect = Socket.prototype.connect as (this: Socket, ...words: unknown[]) => Socket

Socket.prototype.connect = function (this: Socket, ...words: unknown[]): Socket {
  const [first] = words
  // `net.connect` passes on a list whose first entry is the options.
  if (Array.isArray(first)) first[0] = routeOptions(first[0] as NetConnectOpts)
  else if (typeof first === 'object' && first !== null) words[0] = routeOptions(first as NetConnectOpts)
  return connect.apply(this, words)
} as typeof Socket.prototype.connect

function routeOptions(options: NetConnectOpts): NetConnectOpts {
  const { host, port } = options as TcpNetConnectOpts
  const route = routes.get(`${host}:${port}`)
  if (route === undefined) return options
  const at = route.lastIndexOf(':')
  return { ...options, host: route.slice(0, at), port: Number(route.slice(at + 1)) }
}
