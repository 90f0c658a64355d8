import { PANEL_ROWS, type Panel, withMatchers } from './panels.ts'

const COLUMNS = 24
const PANEL_WIDTH = 8
const PANEL_HEIGHT = 8
/** Of the dashboard JSON; Grafana 10 and later read it. */
const SCHEMA_VERSION = 39

const WHERE = 'job=~"$job",instance=~"$instance"'
const TENANT = `${WHERE},model_name=~"$model",cache_salt=~"$salt"`
const SOURCE = { type: 'prometheus', uid: '$datasource' }

interface Place {
  readonly x: number
  readonly y: number
}

/**
 * The Grafana dashboard as JSON: every panel of panels.ts, with variables for the data source, job, instance, model
 * and salt. Format: Grafana's dashboard model, schema version 39.
 */
export function grafanaDashboard(): object {
  return {
    uid: 'kvtier',
    title: 'kvtier: KV cache',
    description: 'Hit rate, tiers, throughput and health of cache engines.',
    tags: ['kvtier', 'kv-cache', 'llm'],
    schemaVersion: SCHEMA_VERSION,
    version: 1,
    editable: true,
    graphTooltip: 1,
    refresh: '30s',
    time: { from: 'now-1h', to: 'now' },
    timezone: 'browser',
    annotations: { list: [] },
    links: [],
    templating: { list: variables() },
    panels: placedPanels(),
  }
}

function variables(): object[] {
  const common = { type: 'query', datasource: SOURCE, includeAll: true, multi: true, refresh: 2, sort: 1 }
  const valuesOf = (label: string, metric: string) => ({
    definition: `label_values(${metric}, ${label})`,
    query: { query: `label_values(${metric}, ${label})`, refId: label },
    allValue: '.*',
    current: { selected: true, text: ['All'], value: ['$__all'] },
  })
  return [
    { name: 'datasource', label: 'Data source', type: 'datasource', query: 'prometheus', current: {} },
    { name: 'job', label: 'Job', ...common, ...valuesOf('job', 'cache_mp_l1_usage_ratio') },
    { name: 'instance', label: 'Engine', ...common, ...valuesOf('instance', 'cache_mp_l1_usage_ratio') },
    { name: 'model', label: 'Model', ...common, ...valuesOf('model_name', 'cache_mp_lookup_requested_tokens_total') },
    { name: 'salt', label: 'Tenant', ...common, ...valuesOf('cache_salt', 'cache_mp_lookup_requested_tokens_total') },
  ]
}

function placedPanels(): object[] {
  const placed: object[] = []
  let y = 0
  let id = 1
  for (const row of PANEL_ROWS) {
    placed.push({
      id,
      type: 'row',
      title: row.title,
      collapsed: false,
      gridPos: { x: 0, y, w: COLUMNS, h: 1 },
      panels: [],
    })
    id += 1
    y += 1
    for (const [at, panel] of row.panels.entries()) {
      const perLine = COLUMNS / PANEL_WIDTH
      const place = { x: (at % perLine) * PANEL_WIDTH, y: y + Math.floor(at / perLine) * PANEL_HEIGHT }
      placed.push(panelJson(panel, id, place))
      id += 1
    }
    y += Math.ceil(row.panels.length / (COLUMNS / PANEL_WIDTH)) * PANEL_HEIGHT
  }
  return placed
}

function panelJson(panel: Panel, id: number, { x, y }: Place): object {
  const isTable = panel.kind === 'table'
  return {
    id,
    type: panel.kind,
    title: panel.title,
    description: panel.guide,
    datasource: SOURCE,
    gridPos: { x, y, w: PANEL_WIDTH, h: PANEL_HEIGHT },
    fieldConfig: { defaults: { unit: panel.unit, min: 0, ...limits(panel) }, overrides: [] },
    options: optionsOf(panel),
    targets: panel.queries.map(({ expr, legend }, at) => ({
      refId: String.fromCharCode(65 + at),
      datasource: SOURCE,
      expr: withMatchers(expr, WHERE, TENANT),
      legendFormat: legend,
      editorMode: 'code',
      range: !isTable,
      instant: isTable,
      format: isTable ? 'table' : 'time_series',
    })),
  }
}

function limits({ unit }: Panel): object {
  return unit === 'percentunit' ? { max: 1 } : {}
}

function optionsOf({ kind }: Panel): object {
  switch (kind) {
    case 'timeseries':
      return { legend: { displayMode: 'list', placement: 'bottom' }, tooltip: { mode: 'multi', sort: 'desc' } }
    case 'stat':
      return { reduceOptions: { calcs: ['lastNotNull'] }, graphMode: 'area', colorMode: 'none' }
    case 'table':
      return { showHeader: true, cellHeight: 'sm' }
  }
}
