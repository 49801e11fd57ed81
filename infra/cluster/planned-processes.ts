/** The plan of a cluster. */
export type Role = 'cassandra' | 'nats' | 'actor-host' | 'storage-node' | 'upload' | 'api'

export interface PlannedProcess {
  name: string
  role: Role
  region: string
  /** Address of its admin host; null for third-party servers. */
  admin: string | null
  /** `HOLDFAST_` settings. */
  settings: Record<string, string>
}

export interface PlannedRegion {
  code: string
  api: string
  upload: string
  download: string
  admin: string
  /** Cassandra's address and ports of NATS. */
  cassandra: string
  natsPort: number
  gatewayPort: number
}

export interface Plan {
  version: 1
  /** Of all nats-servers. Older plans have none. */
  nats?: { user: string; password: string }
  regions: PlannedRegion[]
  processes: PlannedProcess[]
}
