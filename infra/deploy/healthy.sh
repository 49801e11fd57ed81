#!/bin/sh
# Ends with 0 while the service in this container is alive (`/livez` of its admin host).
exec "$(dirname -- "$0")/../../node_modules/.bin/node" -e "
  fetch('http://127.0.0.1:' + (process.env.HOLDFAST_ADMIN_PORT || 8090) + '/livez').then(
    ({ ok }) => process.exit(ok ? 0 : 1),
    (error) => { console.error(String(error)); process.exit(1) },
  )"
