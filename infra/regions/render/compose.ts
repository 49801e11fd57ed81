/** `/etc/holdfast/compose.yaml` of a host: the same processes as its units, in containers. */
import { stringify } from 'yaml'
import type { Plan, PlannedHost } from '../plan.ts'
import { type Container, containersOf, isMade, ownUser, startSeconds } from './containers.ts'

/** Variables of compose; a file `.env` beside this one may set them. */
const holdfast = ['UID', 'GID'].map((id) => `\${SERVICE_${id}:-${ownUser}}`).join(':')

/** The service that makes the folders of data. */
const foldersName = 'folders'

/** As in the image of Holdfast, with more time for a start. */
const alive = {
  test: ['CMD', 'infra/deploy/healthy.sh'],
  interval: '30s',
  timeout: '5s',
  start_period: `${startSeconds}s`,
}

export function composeFile(plan: Plan, host: PlannedHost, textOf: (path: string) => string): string {
  const containers = containersOf(plan, host, textOf)
  const made = containers.filter(({ mounts }) => mounts.some(isMade))
  const services = Object.fromEntries(
    containers.map((container) => [
      container.name,
      {
        image: container.image,
        // A command as a list is not read by a shell; `entrypoint` replaces that of the image.
        entrypoint: container.command,
        // Files of secrets are readable by the group `holdfast` of the host.
        user: container.user === ownUser ? holdfast : String(container.user),
        network_mode: 'host',
        // Also after a start of the host: docker does not repeat `on-failure` then.
        restart: 'unless-stopped',
        stop_grace_period: `${container.stopSeconds}s`,
        ...(made.includes(container)
          ? { depends_on: { [foldersName]: { condition: 'service_completed_successfully' } } }
          : {}),
        ...(container.health === undefined ? {} : { healthcheck: alive }),
        ...(container.envFile === undefined ? {} : { env_file: [container.envFile] }),
        volumes: [
          ...container.secrets.map((path) => bind(path, { to: path, readOnly: true })),
          ...container.mounts.map((mount) => bind(mount.from, { to: mount.to, readOnly: mount.readOnly })),
        ],
        ulimits: { nofile: 65_536 },
        security_opt: ['no-new-privileges:true'],
        cap_drop: ['ALL'],
      },
    ]),
  )
  return stringify(
    {
      name: `holdfast-${host.name}`,
      services: made.length === 0 ? services : { [foldersName]: folders(made), ...services },
    },
    { lineWidth: 0, aliasDuplicateObjects: false },
  )
}

/**
 * Makes the folders below the usual places, for their users alone. A disk of its own is not
 * touched: where none is mounted its folder stays root's, and no process makes a store there.
 */
function folders(containers: readonly Container[]): object {
  const owned = containers.map(({ user, mounts }) => ({
    paths: mounts.filter(isMade).map(({ from }) => from),
    users: user === ownUser ? holdfast : `${user}:${user}`,
  }))
  return {
    image: containers[0]?.image,
    entrypoint: [
      'sh',
      '-ec',
      owned
        .map(({ users, paths }) => `chown ${users} ${paths.join(' ')}; chmod 700 ${paths.join(' ')}`)
        .join('; '),
    ],
    user: 'root',
    network_mode: 'none',
    volumes: owned.flatMap(({ paths }) =>
      paths.map((path) => bind(path, { to: path, readOnly: false, made: true })),
    ),
    security_opt: ['no-new-privileges:true'],
    cap_drop: ['ALL'],
    cap_add: ['CHOWN', 'FOWNER'],
  }
}

/** A missing file is a fault at the start: docker makes no folder in its place. */
function bind(
  source: string,
  { to, readOnly, made = false }: { to: string; readOnly: boolean; made?: boolean },
): object {
  return { type: 'bind', source, target: to, read_only: readOnly, bind: { create_host_path: made } }
}
