#!/bin/sh
# Ends with 0 while the process in this container is alive (`/livez` of its admin host). It sends no
# token, so it needs no proof of who answers by TLS.
exec "$(dirname -- "$0")/../../node_modules/.bin/node" -e "
  const { HOLDFAST_ADMIN_BIND: bind = '', HOLDFAST_ADMIN_PORT: port = '', HOLDFAST_ADMIN_TLS: tls } = process.env
  // If the admin host listens on all addresses, loopback is used.
  const host = { '': '127.0.0.1', '0.0.0.0': '127.0.0.1', '::': '::1' }[bind] ?? bind
  require(tls === 'required' ? 'https' : 'http')
    .get({ host, port: port || 8090, path: '/livez', rejectUnauthorized: false }, ({ statusCode }) =>
      process.exit(statusCode === 200 ? 0 : 1))
    .on('error', (error) => { console.error(String(error)); process.exit(1) })"
