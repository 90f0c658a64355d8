import { goTool } from '../go-program.ts'

// Builds the Go programs of test/support/go before the tests, which have less time than a first build takes.
const context = { skip: (reason: string) => console.log(reason) }
for (const [name, target] of [
  ['strict-manifests', '.'],
  ['otel-collector', '.'],
  ['prometheus', 'github.com/prometheus/prometheus/cmd/prometheus'],
  ['helm', 'helm.sh/helm/v3/cmd/helm'],
] as const) {
  const startedMs = performance.now()
  goTool(context as never, name, target)
  console.log(`${name}: built in ${Math.round((performance.now() - startedMs) / 1000)} s`)
}
