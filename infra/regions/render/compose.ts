/** `/etc/holdfast/compose.yaml` of a host: the same processes as its units, in containers. */
import { stringify } from 'yaml'
import type { Plan, PlannedHost } from '../plan.ts'
import { containersOf, ownUser } from './containers.ts'

/** Variables of compose; a file `.env` beside this one may set them. */
const holdfast = ['UID', 'GID'].map((id) => `\${SERVICE_${id}:-${ownUser}}`).join(':')

export function composeFile(plan: Plan, host: PlannedHost): string {
  const services = Object.fromEntries(
    containersOf(plan, host).map((container) => [
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
        volumes: container.mounts.map(({ from, to, readOnly }) => ({
          type: 'bind',
          source: from,
          target: to,
          read_only: readOnly,
        })),
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
