/** `infra/SETTINGS.md`, from the settings in `libs/config/src/topics`. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { clusterSettings, settings } from '@holdfast/config'
import { generatedMark, table } from './table.ts'

const pages = {
  contract: sectionsOf('apps/api/CONTRACT.md'),
  guide: sectionsOf('infra/OPERATING.md'),
  hosts: sectionsOf('infra/regions/HOSTS.md'),
  network: sectionsOf('infra/regions/NETWORK.md'),
  containers: sectionsOf('infra/regions/CONTAINERS.md'),
  acts: sectionsOf('libs/moderation/ACTS.md'),
}

type Schema = Readonly<Record<string, { fallback: string; form: string; meaning: string; secret: boolean }>>

export function settingsPage(): string {
  return `${generatedMark}

# Settings

Every setting is a variable of the environment. The process checks all of them at its start. It names every fault at once
and ends with code 78. A variable that begins with \`HOLDFAST_\` and is not in these tables is a fault.

- \`npm run -s config\` prints the settings in force. \`npm run -s config -- --cluster\` adds those of a cluster.
- Sizes take units: \`10GB\`, \`2GiB\`.
- A secret can come from a file: set the name of the file in the variable with \`_FILE\` behind its name. Secrets are
  ${secretsOf({ ...settings, ...clusterSettings })}.

"Described in" has the sections that name the setting: of the contract (\`apps/api/CONTRACT.md\`), the operator's guide
(\`infra/OPERATING.md\`), the pages of a deployment (\`infra/regions/HOSTS.md\`, \`infra/regions/NETWORK.md\`,
\`infra/regions/CONTAINERS.md\`) and of operators' acts (\`libs/moderation/ACTS.md\`).

## Every process

${tableOf(settings)}

## Processes of a cluster

A process of a cluster takes all settings above, and these. \`npm run cluster\` sets them by itself.

${tableOf(clusterSettings)}
`
}

function tableOf(schema: Schema): string {
  return table(
    ['setting', 'default', 'value', 'meaning', 'described in'],
    Object.entries(schema).map(([name, { fallback, form, meaning }]) => [
      `\`${name}\``,
      fallback === '' ? '' : `\`${fallback}\``,
      form,
      meaning,
      Object.entries(pages)
        .map(([page, sections]) => ({ page, titles: sections.filter(({ names }) => names.has(name)) }))
        .filter(({ titles }) => titles.length > 0)
        .map(({ page, titles }) => `${page}: ${titles.map(({ title }) => title).join('; ')}`)
        .join('. '),
    ]),
  )
}

/** Sections with the settings that each names. */
function sectionsOf(page: string): { title: string; names: ReadonlySet<string> }[] {
  const text = readFileSync(join(import.meta.dirname, '../..', page), 'utf8')
  return text.split(/^#+ /m).map((section) => ({
    title: section.split('\n', 1)[0] ?? '',
    names: new Set(section.match(/HOLDFAST_[A-Z0-9_]+/g)),
  }))
}

function secretsOf(schema: Schema): string {
  const names = Object.entries(schema).flatMap(([name, { secret }]) => (secret ? [`\`${name}\``] : []))
  return `${names.slice(0, -1).join(', ')} and ${names.at(-1)}`
}
