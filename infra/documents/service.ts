/** An embedded service on free ports with an empty data directory, from which pages are written. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createLog } from '@holdfast/http-kit'
import { readConfig, startStandalone } from '@holdfast/standalone'
import type { Registry } from 'prom-client'

export interface RunningService {
  metrics: Registry
  /** What `/metrics` answers. */
  scraped: string
  /** Operations by path and method. */
  operations: Record<string, Record<string, Operation>>
}

export interface Operation {
  parameters?: { name: string }[]
  requestBody?: { content?: Record<string, { schema?: BodySchema }> }
  /** By HTTP code. Undefined: no operation, but what all of the path share. */
  responses?: Record<string, { content?: Record<string, { schema?: AnswerSchema }> }>
}

interface BodySchema {
  properties?: object
  /** The attributes of an update, each with its values. */
  oneOf?: {
    title: string
    properties: { attributeValue: { anyOf: { enum?: unknown[]; maxLength?: number }[] } }
  }[]
}

interface AnswerSchema {
  properties?: { status?: { enum?: string[] }; data?: { properties?: object } }
}

export async function withService<T>(use: (service: RunningService) => T | Promise<T>): Promise<T> {
  const dataDir = mkdtempSync(join(tmpdir(), 'holdfast-documents-'))
  const ports = ['API', 'UPLOAD', 'DOWNLOAD', 'ADMIN'].map((host) => [`HOLDFAST_${host}_PORT`, '0'])
  const env = { ...Object.fromEntries(ports), HOLDFAST_DATA_DIR: dataDir }
  try {
    const { config, secrets } = readConfig(env, { readSecret: () => '' })
    const service = await startStandalone({ config, secrets, log: createLog({ level: 'silent' }) })
    try {
      const { api, admin } = service.addresses
      const [document, scraped] = await Promise.all([
        fetch(`${api}/openapi.json`).then((answer) => answer.json()),
        fetch(`${admin}/metrics`).then((answer) => answer.text()),
      ])
      const { paths } = document as { paths: RunningService['operations'] }
      return await use({ metrics: service.metrics, scraped, operations: paths })
    } finally {
      await service.close()
    }
  } finally {
    rmSync(dataDir, { recursive: true, force: true })
  }
}
