/**
 * Kubernetes with kustomize: a folder for the cluster of a region, `kubectl apply -k <folder>`. A
 * host of the file is a node of that name. The Secrets `holdfast-secrets` and `holdfast-tls-<host>`
 * hold what is in `/etc/holdfast/secrets` and `/etc/holdfast/tls` on hosts.
 */
import { stringify } from 'yaml'
import type { Plan, PlannedHost, PlannedRegion } from '../plan.ts'
import { places } from '../platform.ts'
import { type Container, containersOf, isMade, type Mount } from './containers.ts'

const namespace = 'holdfast'
const probeSeconds = 5
/** In YAML of Kubernetes it is a decimal number. */
const groupReads = 0o440
const asText = (value: unknown) => stringify(value, { lineWidth: 0, aliasDuplicateObjects: false })

/** @param configured files of a host by their places; those that containers mount are taken. */
export function kubernetesFiles(
  plan: Plan,
  region: PlannedRegion,
  configured: (host: PlannedHost) => ReadonlyMap<string, string>,
): [path: string, text: string][] {
  const folder = `kubernetes/${region.code}`
  const files: [string, string][] = []
  const resources = ['namespace.yaml']
  const generators: object[] = []
  for (const host of region.hosts) {
    const texts = configured(host)
    const containers = containersOf(plan, host, (path) => texts.get(path) ?? '')
    if (containers.length === 0) continue
    const rendered = containers.flatMap(({ mounts }) => mounts.filter(({ kind }) => kind === 'rendered'))
    const named = rendered.map(({ from }) => ({ from, file: `${host.name}/${baseOf(from)}` }))
    for (const { from, file } of named) files.push([`${folder}/${file}`, texts.get(from) ?? ''])
    if (named.length > 0)
      generators.push({ name: `${host.name}-files`, files: named.map(({ file }) => file) })
    for (const { name, envFile } of containers)
      if (envFile !== undefined) {
        files.push([`${folder}/${host.name}/${envFile}`, texts.get(`${places.etc}/${envFile}`) ?? ''])
        generators.push({ name: `${name}-env`, envs: [`${host.name}/${envFile}`] })
      }
    const manifest = `${host.name}/processes.yaml`
    resources.push(manifest)
    files.push([
      `${folder}/${manifest}`,
      containers.map((container) => asText(statefulSet(host, container))).join('---\n'),
    ])
  }
  files.push(
    [
      `${folder}/namespace.yaml`,
      asText({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } }),
    ],
    [
      `${folder}/kustomization.yaml`,
      asText({
        apiVersion: 'kustomize.config.k8s.io/v1beta1',
        kind: 'Kustomization',
        namespace,
        labels: [
          {
            pairs: { 'app.kubernetes.io/part-of': 'holdfast', 'holdfast/region': region.code },
            includeTemplates: true,
          },
        ],
        resources,
        configMapGenerator: generators,
      }),
    ],
  )
  return files
}

function statefulSet(host: PlannedHost, container: Container): object {
  const labels = { 'app.kubernetes.io/name': container.name }
  const mounts = container.mounts.map((mount) => ({ mount, volume: volumeOf(host, mount) }))
  const volumes = new Map(mounts.map(({ volume }) => [volume.name, volume]))
  const secrets = secretVolumes(host, container)
  const { address: to, port, user, memory, health } = container
  const connect = { tcpSocket: { host: to, port } }
  const scheme = health === 'https' ? { scheme: 'HTTPS' } : {}
  const says = (path: string) =>
    health === undefined ? connect : { httpGet: { ...scheme, host: to, port, path } }
  const folders = container.mounts.filter(({ kind }) => kind === 'data').map(({ from }) => from)
  return {
    apiVersion: 'apps/v1',
    kind: 'StatefulSet',
    metadata: { name: container.name },
    spec: {
      replicas: 1,
      serviceName: container.name,
      // Else all pods of a region would restart at once: each is a set of its own.
      updateStrategy: { type: 'OnDelete' },
      selector: { matchLabels: labels },
      template: {
        metadata: { labels },
        spec: {
          hostNetwork: true,
          automountServiceAccountToken: false,
          // A Service `holdfast` would put HOLDFAST_SERVICE_HOST into the environment, which is no
          // setting: no process would start.
          enableServiceLinks: false,
          nodeSelector: { 'kubernetes.io/hostname': host.name },
          terminationGracePeriodSeconds: container.stopSeconds,
          securityContext: { runAsUser: user, runAsNonRoot: true, fsGroup: user },
          ...(folders.length === 0
            ? {}
            : { initContainers: [ownFolders(container, { folders, volumes: mounts })] }),
          containers: [
            {
              name: 'main',
              image: container.image,
              command: container.command,
              ...(container.envFile === undefined
                ? {}
                : { envFrom: [{ configMapRef: { name: `${container.name}-env` } }] }),
              env: Object.entries(memory.environment).map(([name, value]) => ({ name, value })),
              resources: {
                requests: { memory: `${memory.requestMiB}Mi` },
                limits: { memory: `${memory.limitMiB}Mi` },
              },
              readinessProbe: { ...says('/readyz'), periodSeconds: probeSeconds },
              startupProbe: {
                ...connect,
                periodSeconds: probeSeconds,
                failureThreshold: container.startSeconds / probeSeconds,
              },
              ...(health === undefined
                ? {}
                : { livenessProbe: { ...says('/livez'), periodSeconds: 10, failureThreshold: 3 } }),
              securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } },
              volumeMounts: [
                ...secrets.map(({ name, folder }) => ({ name, mountPath: folder, readOnly: true })),
                ...mounts.map(({ mount, volume }) => ({
                  name: volume.name,
                  mountPath: mount.to,
                  ...(mount.kind === 'rendered' ? { subPath: baseOf(mount.from) } : {}),
                  readOnly: mount.readOnly,
                })),
              ],
            },
          ],
          volumes: [...secrets.map(({ name, secret }) => ({ name, secret })), ...volumes.values()],
        },
      },
    },
  }
}

/** A folder of the host is root's and open to all at first, and `fsGroup` does not apply to it. */
function ownFolders(
  { image, user }: Container,
  { folders, volumes }: { folders: string[]; volumes: { mount: Mount; volume: { name: string } }[] },
): object {
  return {
    name: 'folders',
    image,
    command: ['sh', '-ec', `chown ${user}:${user} ${folders.join(' ')}; chmod 700 ${folders.join(' ')}`],
    securityContext: {
      runAsUser: 0,
      runAsNonRoot: false,
      allowPrivilegeEscalation: false,
      capabilities: { drop: ['ALL'], add: ['CHOWN', 'FOWNER'] },
    },
    volumeMounts: volumes
      .filter(({ mount }) => mount.kind === 'data')
      .map(({ mount, volume }) => ({ name: volume.name, mountPath: mount.to })),
  }
}

/**
 * Of each Secret the keys that the process reads, for its group. Mounted as a folder: Kubernetes
 * brings a changed Secret into it, and processes read it again.
 */
function secretVolumes(
  host: PlannedHost,
  { secrets }: Container,
): { name: string; folder: string; secret: object }[] {
  // Each host has a certificate of its own.
  const sources = { [places.secrets]: 'holdfast-secrets', [places.tls]: `holdfast-tls-${host.name}` }
  return Object.entries(sources).flatMap(([folder, secretName]) => {
    const items = secrets
      .filter((path) => path.startsWith(`${folder}/`))
      .map((path) => ({ key: baseOf(path), path: baseOf(path) }))
    if (items.length === 0) return []
    return [{ name: baseOf(folder), folder, secret: { secretName, defaultMode: groupReads, items } }]
  })
}

function volumeOf(host: PlannedHost, mount: Mount): { name: string } {
  const { from, kind } = mount
  if (kind === 'rendered')
    return { name: 'files', configMap: { name: `${host.name}-files` } } as { name: string }
  return {
    name: 'data',
    hostPath: { path: from, type: isMade(mount) ? 'DirectoryOrCreate' : 'Directory' },
  } as { name: string }
}

function baseOf(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1)
}
