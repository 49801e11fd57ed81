/** The plan of a cluster, as `plan.json` has it. */
import type { OurRole } from '../regions/roles.ts'

export type ProcessRole = Exclude<OurRole, 'standalone'>
export type Role = 'cassandra' | 'nats' | ProcessRole

export interface LocalProcess {
  name: string
  role: Role
  region: string
  /** Address of its admin host; null for third-party servers. */
  admin: string | null
  /** `HOLDFAST_` settings. */
  settings: Record<string, string>
  /** Configuration of a third-party server, by the names of its files. */
  files?: Record<string, string>
}

export interface LocalRegion {
  code: string
  /** Where its servers and storage nodes are found. */
  address: string
  api: string
  upload: string
  download: string
  admin: string
}

/** What the first start drew, and later ones keep. */
export interface Choices {
  /** The third number of the regions' addresses, 127.0.x.y. */
  network: number
  secrets: { cluster: string; nats: string; natsSystem: string }
  /** By what listens there; also those that a setting chose. */
  ports: Record<string, number>
}

export interface LocalPlan {
  version: 2
  choices: Choices
  regions: LocalRegion[]
  processes: LocalProcess[]
}
