/** What scripts on hosts have in common: functions for `sh`. They read `$root`. */
import { places } from './platform.ts'
import { natsPasswords, natsRoutes, natsUser } from './render/nats.ts'

export const records = `${places.data}/started`

/**
 * A unit's record has two digests: that of all files with which the unit runs, and that of the
 * files which it reads only at its start. Before a file changes, the record is removed; if a reload
 * is enough, only its first digest is removed. So after an interruption the next run restarts or
 * reloads the units that use the file. If a proxy or NATS refuses its new files, the old ones are
 * put back: the server runs on, and can start again after a crash.
 */
export const steps = `
own() {
  [ "$(stat -Lc '%U:%G %a' "$root$3")" = "$1 $2" ] || { chown "$1" "$root$3"; chmod "$2" "$root$3"; }
}
put() {
  users=$1 mode=$2; shift 2
  mkdir -p "$root$(dirname "$1")"
  (umask 077; base64 -d > "$root$1.new")
  own "$users" "$mode" "$1.new"
  # An earlier release let anyone read it.
  [ ! -e "$root$1" ] || own "$users" "$mode" "$1"
  lay "$@"
}
# The password is in no rendered file. All of it is encoded: it may have any sign. Between its quotes
# it has a \\ before " and \\; nats-server reads a \\ before a letter as another sign.
routes() {
  password=$(sed -n 's/^ *HOLDFAST_PASSWORD *[:=] *"\\([^"\\]*\\(\\\\["\\][^"\\]*\\)*\\)".*/\\1/p' \\
    "$root${places.secrets}/${natsPasswords}" | sed 's/\\\\\\(.\\)/\\1/g')
  [ -n "$password" ] || { echo "no HOLDFAST_PASSWORD: \\"…\\" is in ${places.secrets}/${natsPasswords}" >&2; exit 1; }
  word=$(printf %s "$password" | od -An -v -tx1 | tr -d ' \\n' | sed 's/../%&/g')
  all=
  for address in "$@"; do all="$all\${all:+, }\\"nats://${natsUser}:$word@$address\\""; done
  new=${places.secrets}/${natsRoutes}.new
  (umask 077; echo "ROUTES: [$all]" > "$root$new")
  own root:holdfast 640 "$new"
  lay ${places.secrets}/${natsRoutes} holdfast-nats.service
}
lay() {
  path=$1; shift
  if cmp -s "$root$path.new" "$root$path"; then rm "$root$path.new"; return; fi
  for unit in "$@"; do
    record=$root${records}/$unit
    if ! reloads "$unit" "$path"; then rm -f "$record"
    elif [ -e "$record" ]; then
      fixed=$(cut -s -d' ' -f2 "$record")
      echo "- $fixed" > "$record"
    fi
    case " $(configOf "$unit") " in *" $path "*)
      [ ! -e "$root$path" ] || ln -f "$root$path" "$root$path.before-up"
    esac
  done
  mv "$root$path.new" "$root$path"
  echo "changed $path"
}
clear() {
  unit=\${1##*/}
  case "$unit" in *.service | *.target)
    systemctl stop "$unit" || [ $? -eq 5 ] || failed "$unit" "does not stop"
    systemctl disable --quiet "$unit" || [ ! -e "$root$1" ]
    rm -f "$root${records}/$unit"
  esac
  case "$1" in /*) rm -f "$root$1"; echo "removed $1";; *) echo "stopped $1";; esac
}
begin() {
  running= fixed=
  [ ! -e "$root${records}/$1" ] || read -r running fixed < "$root${records}/$1" || :
  if [ "$running" = "$2" ]; then systemctl start "$1" || failed "$1"; return; fi
  check "$1"
  if [ "$fixed" = "$3" ] && [ -n "$(checkOf "$1")" ] && systemctl is-active --quiet "$1"; then
    systemctl reload "$1" && echo "reloaded $1" && return
    echo "$1 does not reload, so it is restarted"
  fi
  rm -f "$root${records}/$1"
  systemctl restart "$1" || failed "$1"
}
begun() { mkdir -p "$root${records}"; echo "$2 $3" > "$root${records}/$1"; }
reloads() {
  case "$1 $2" in
    'caddy.service '* | 'nginx.service '* | 'holdfast-nats.service ${places.secrets}/${natsRoutes}') return 0;;
    *) return 1
  esac
}
# how a unit's configuration is tried; nothing: it is not
checkOf() {
  case "$1" in
    caddy.service) echo "caddy validate --adapter caddyfile --config $root/etc/caddy/Caddyfile";;
    nginx.service) echo "nginx -q -t";;
    holdfast-nats.service) echo "nats-server -t -c $root${places.etc}/nats.conf"
  esac
}
configOf() {
  case "$1" in
    caddy.service) echo /etc/caddy/Caddyfile;;
    nginx.service) echo /etc/nginx/conf.d/holdfast.conf;;
    holdfast-nats.service) echo ${places.etc}/nats.conf ${places.secrets}/${natsRoutes}
  esac
}
check() {
  command=$(checkOf "$1")
  [ -n "$command" ] || return 0
  # Caddy makes folders in that of its user.
  home=$(mktemp -d)
  said=$(env HOME="$home" XDG_DATA_HOME="$home" XDG_CONFIG_HOME="$home" $command 2>&1) && good=1 || good=
  rm -rf "$home"
  back=
  for path in $(configOf "$1"); do
    [ -e "$root$path.before-up" ] || continue
    if [ -n "$good" ]; then rm "$root$path.before-up"
    else mv "$root$path.before-up" "$root$path"; back="; it runs on with those of before"; fi
  done
  [ -z "$good" ] || return 0
  echo "$said" | tail -n 20 >&2
  echo "$1 refuses its new files$back. Repair what it says above, then repeat up" >&2
  exit 1
}
failed() {
  echo "$1 \${2:-does not start}; see systemctl status $1 and journalctl -eu $1, then repeat up" >&2
  exit 1
}
# until a unit listens: its name, the address, seconds
listening() {
  tries=0
  until ss -Hltn "src $2" | grep -q .; do
    tries=$((tries + 1))
    [ "$tries" -le "$3" ] && ! systemctl is-failed --quiet "$1" || return 1
    sleep 1
  done
}`
