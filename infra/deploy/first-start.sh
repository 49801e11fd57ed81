#!/bin/sh
# Starts the service once over an empty directory and ends it, so that Node's compiled modules are
# in the image: its code is read-only, and they halve each start.
set -eu
data=$(mktemp -d)
HOLDFAST_DATA_DIR=$data HOLDFAST_API_PORT=0 HOLDFAST_UPLOAD_PORT=0 HOLDFAST_DOWNLOAD_PORT=0 \
  HOLDFAST_ADMIN_PORT=8090 infra/launch.sh apps/standalone/src/main.ts &
service=$!
until infra/deploy/healthy.sh 2> /dev/null; do
  kill -0 $service
  sleep 0.2
done
infra/launch.sh apps/ctl/src/main.ts status > /dev/null
kill -TERM $service
wait $service
rm -rf "$data"
