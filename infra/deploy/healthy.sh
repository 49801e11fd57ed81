#!/bin/sh
# Ends with 0 while the process in this container is alive (`/livez` of its admin host).
exec "$(dirname -- "$0")/../../node_modules/.bin/node" -e "
  const { HOLDFAST_ADMIN_BIND: bind = '', HOLDFAST_ADMIN_PORT: port = '' } = process.env
  // If the admin host listens on all addresses, loopback is used.
  const address = { '': '127.0.0.1', '0.0.0.0': '127.0.0.1', '::': '::1' }[bind] ?? bind
  const host = address.includes(':') ? '[' + address + ']' : address
  fetch('http://' + host + ':' + (port || 8090) + '/livez').then(
    ({ ok }) => process.exit(ok ? 0 : 1),
    (error) => { console.error(String(error)); process.exit(1) },
  )"
