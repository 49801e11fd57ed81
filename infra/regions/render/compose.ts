/** `/etc/holdfast/compose.yaml` of a host: the same processes as its units, in containers. */
import { stringify } from 'yaml'
import type { Plan, PlannedHost } from '../plan.ts'
import { containersOf, ownUser } from './containers.ts'

/** Variables of compose; a file `.env` beside this one may set them. */
const holdfast = ['UID', 'GID'].map((id) => `\${SERVICE_${id}:-${ownUser}}`).join(':')

export function composeFile(plan: Plan, host: PlannedHost, textOf: (path: string) => string): string {
  const services = Object.fromEntries(
    containersOf(plan, host, textOf).map((container) => [
      container.name,
      {
        image: container.image,
        // A command as a list is not read by a shell; `entrypoint` replaces that of the image.
        entrypoint: container.command,
        // Files of secrets are readable by the group `holdfast` of the host.
        user: container.user === ownUser ? holdfast : String(container.user),
        network_mode: 'host',
        restart: 'on-failure',
        stop_grace_period: `${container.stopSeconds}s`,
        ...(container.envFile === undefined ? {} : { env_file: [container.envFile] }),
        volumes: [
          ...container.secrets.map((path) => bind(path, { to: path, readOnly: true })),
          ...container.mounts.map(({ from, to, readOnly }) => bind(from, { to, readOnly })),
        ],
        ulimits: { nofile: 65_536 },
        security_opt: ['no-new-privileges:true'],
        cap_drop: ['ALL'],
      },
    ]),
  )
  return stringify(
    { name: `holdfast-${host.name}`, services },
    { lineWidth: 0, aliasDuplicateObjects: false },
  )
}

/** A missing file is a fault at the start: docker makes no folder in its place. */
function bind(source: string, { to, readOnly }: { to: string; readOnly: boolean }): object {
  return { type: 'bind', source, target: to, read_only: readOnly, bind: { create_host_path: false } }
}
