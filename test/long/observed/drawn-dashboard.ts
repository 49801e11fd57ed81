/**
 * A dashboard as a page, drawn from what a Prometheus answers. Its panels can be looked at without
 * Grafana: their places are the same, the drawing is plainer.
 */

import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Dashboard, dashboards } from '../../../infra/observe/dashboards.ts'
import { grafanaDashboard } from '../../../infra/observe/grafana.ts'
import type { AskedPrometheus, RangeSeries } from './asked-prometheus.ts'

interface DrawnPanel {
  title: string
  type: 'timeseries' | 'stat'
  gridPos: { x: number; y: number; w: number; h: number }
  fieldConfig: { defaults: { unit: string } }
  targets: { expr: string; legendFormat: string }[]
}

interface Line {
  name: string
  values: readonly (readonly [seconds: number, value: number])[]
}

const rowPixels = 34
const [width, height] = [400, 130]
/** Colours of lines, in this order; readable on white and on black. */
const colours = ['#2f7ed8', '#e07b00', '#2f9e44', '#c92a2a', '#8e44ad', '#0b8a8a', '#a0752b', '#d6336c']

interface Drawn {
  /** For the pages; it is made. */
  folder: string
  /** Before now. */
  seconds: number
  /** Between scrapes. */
  scrapeSeconds: number
}

/** Each dashboard as a page. */
export async function drawDashboards(
  prometheus: AskedPrometheus,
  { folder, seconds, scrapeSeconds }: Drawn,
): Promise<void> {
  mkdirSync(folder, { recursive: true })
  const rateInterval = `${10 * scrapeSeconds}s`
  const range = (expr: string) =>
    prometheus.lastSeconds(expr.replaceAll('$__rate_interval', rateInterval), seconds, scrapeSeconds)
  for (const dashboard of dashboards)
    writeFileSync(join(folder, `${dashboard.id}.html`), await drawnDashboard(dashboard, range))
}

/** @param range asks an expression over the time to draw. */
async function drawnDashboard(
  dashboard: Dashboard,
  range: (expr: string) => Promise<RangeSeries[]>,
): Promise<string> {
  const { title, panels } = JSON.parse(grafanaDashboard(dashboard)) as { title: string; panels: DrawnPanel[] }
  const drawn = await Promise.all(panels.map(async (panel) => drawnPanel(panel, await linesOf(panel, range))))
  return `<!doctype html><meta charset="utf-8"><title>${escaped(title)}</title><style>
:root { color-scheme: light dark; font: 13px system-ui, sans-serif; }
body { margin: 12px; background: Canvas; color: CanvasText; }
main { display: grid; grid-template-columns: repeat(24, 1fr); grid-auto-rows: ${rowPixels}px; gap: 6px; }
section { border: 1px solid #8886; border-radius: 4px; padding: 6px; overflow: hidden; }
h2 { font-size: 13px; margin: 0 0 4px; } svg { width: 100%; height: 60%; } p { margin: 0; font-size: 11px; }
b { font-size: 20px; display: block; } i { display: inline-block; width: 10px; height: 3px; margin: 0 3px 3px 0; }
span { white-space: nowrap; margin-right: 8px; }
</style><h1>${escaped(title)}</h1><main>${drawn.join('\n')}</main>\n`
}

async function linesOf(
  { targets }: DrawnPanel,
  range: (expr: string) => Promise<RangeSeries[]>,
): Promise<Line[]> {
  const all = await Promise.all(
    targets.map(async ({ expr, legendFormat }) =>
      (await range(expr)).map(({ metric, values }) => ({
        name: legendFormat.replaceAll(/\{\{(\w+)\}\}/g, (_, label: string) => metric[label] ?? ''),
        values: values
          .map(([seconds, value]) => [seconds, Number(value)] as const)
          .filter(([, value]) => Number.isFinite(value)),
      })),
    ),
  )
  return all.flat().filter(({ values }) => values.length > 0)
}

function drawnPanel({ title, type, gridPos, fieldConfig }: DrawnPanel, lines: readonly Line[]): string {
  const { x, y, w, h } = gridPos
  const place = `grid-column: ${x + 1} / span ${w}; grid-row: ${y + 1} / span ${h}`
  const { unit } = fieldConfig.defaults
  const body =
    lines.length === 0
      ? '<p>no data</p>'
      : type === 'stat'
        ? lines
            .map(({ name, values }) => `<b>${inUnit(values.at(-1)?.[1] ?? 0, unit)}</b>${escaped(name)} `)
            .join('')
        : chart(lines, unit)
  return `<section style="${place}"><h2>${escaped(title)}</h2>${body}</section>`
}

function chart(lines: readonly Line[], unit: string): string {
  const points = lines.flatMap(({ values }) => values)
  const from = Math.min(...points.map(([seconds]) => seconds))
  const span = Math.max(1, Math.max(...points.map(([seconds]) => seconds)) - from)
  const top = Math.max(...points.map(([, value]) => value), 0) || 1
  const at = ([seconds, value]: readonly [number, number]) =>
    `${(((seconds - from) / span) * width).toFixed(1)},${(height - (Math.max(0, value) / top) * height).toFixed(1)}`
  const colourOf = (index: number) => colours[index % colours.length] as string
  const drawn = lines.map(
    ({ values }, index) =>
      `<polyline fill="none" stroke="${colourOf(index)}" stroke-width="1.5" points="${values.map(at).join(' ')}"/>`,
  )
  const legend = lines.map(
    ({ name, values }, index) =>
      `<span><i style="background: ${colourOf(index)}"></i>${escaped(name)} ${inUnit(values.at(-1)?.[1] ?? 0, unit)}</span> `,
  )
  return `<p>up to ${inUnit(top, unit)}</p><svg viewBox="0 0 ${width} ${height}" preserveAspectRatio="none">${drawn.join('')}</svg><p>${legend.join('')}</p>`
}

function inUnit(value: number, unit: string): string {
  if (unit === 'percentunit') return `${rounded(value * 100)} %`
  if (unit === 's') return value < 1 ? `${rounded(value * 1000)} ms` : `${rounded(value)} s`
  const isBytes = unit === 'bytes' || unit === 'Bps'
  const steps = ['', 'k', 'M', 'G', 'T']
  let step = 0
  let rest = value
  for (; Math.abs(rest) >= 1000 && step < steps.length - 1; step++) rest /= 1000
  const name = isBytes ? `${steps[step]}B` : (steps[step] ?? '')
  return `${rounded(rest)} ${name}${/ps$/.test(unit) ? '/s' : ''}`.trimEnd()
}

function rounded(value: number): string {
  return String(Number(value.toPrecision(3)))
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;')
}
