/** A dashboard as Grafana imports it. Its Prometheus is chosen at the top of the page. */
import type { Dashboard, Panel } from './dashboards.ts'

/** Grafana divides the width into 24 columns. */
const columns = 24
const sizes = { lines: { w: 8, h: 7 }, now: { w: 4, h: 4 } } as const
const datasource = { type: 'prometheus', uid: '$datasource' }

export function grafanaDashboard({ id, title, panels }: Dashboard): string {
  const places = placesOf(panels)
  const dashboard = {
    uid: `holdfast-${id}`,
    title,
    tags: ['holdfast'],
    schemaVersion: 39,
    version: 1,
    editable: true,
    graphTooltip: 1,
    refresh: '30s',
    time: { from: 'now-6h', to: 'now' },
    timezone: 'browser',
    templating: {
      list: [{ name: 'datasource', label: 'Prometheus', type: 'datasource', query: 'prometheus' }],
    },
    links: [{ title: 'Holdfast', type: 'dashboards', tags: ['holdfast'], asDropdown: true, keepTime: true }],
    panels: panels.map((panel, at) => ({ id: at + 1, gridPos: places[at], ...grafanaPanel(panel) })),
  }
  return `${JSON.stringify(dashboard, null, 2)}\n`
}

function grafanaPanel({ title, unit, kind, signed, queries }: Panel) {
  return {
    title,
    type: kind === 'lines' ? 'timeseries' : 'stat',
    datasource,
    fieldConfig: { defaults: { unit, ...(signed ? {} : { min: 0 }) }, overrides: [] },
    ...(kind === 'lines' ? {} : { options: { reduceOptions: { calcs: ['lastNotNull'] } } }),
    targets: queries.map(([legendFormat, expr], at) => ({
      refId: String.fromCharCode('A'.charCodeAt(0) + at),
      datasource,
      expr: expr.replaceAll('$range', '$__rate_interval'),
      legendFormat,
    })),
  }
}

/** From left to right, in rows; panels of a row are of one kind. */
function placesOf(panels: readonly Panel[]) {
  let x = 0
  let y = 0
  let height = 0
  return panels.map(({ kind }) => {
    const { w, h } = sizes[kind]
    if (x + w > columns || (height !== 0 && h !== height)) {
      x = 0
      y += height
    }
    height = h
    const place = { x, y, w, h }
    x += w
    return place
  })
}
