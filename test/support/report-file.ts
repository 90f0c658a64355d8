import { writeFileSync } from 'node:fs'
import type { Reporter, TestCase, TestModule, TestSuite } from 'vitest/node'
import type {} from './skip-unless.ts'

/** What `.ci/run` reads: one entry for each test that did not pass. */
export interface TestReport {
  passed: number
  /** Names of failed tests, and of files or hooks that broke outside a test. */
  failed: string[]
  skipped: { name: string; reason: string }[]
}

/** A vitest reporter that writes a `TestReport` as JSON when the run ends. */
export class ReportFile implements Reporter {
  readonly #path: string

  constructor(path: string) {
    this.#path = path
  }

  onTestRunEnd(modules: readonly TestModule[], unhandled: readonly { message: string }[]): void {
    const report: TestReport = { passed: 0, failed: [], skipped: [] }
    for (const module of modules) {
      for (const test of module.children.allTests()) addTest(report, module, test)
      if (module.errors().length > 0)
        report.failed.push(`${module.relativeModuleId}: ${firstLine(module.errors()[0]!)}`)
      for (const suite of module.children.allSuites()) {
        if (suite.errors().length > 0) report.failed.push(`${module.relativeModuleId} > ${suite.fullName}`)
      }
    }
    for (const error of unhandled) report.failed.push(`outside a test: ${firstLine(error)}`)
    writeFileSync(this.#path, JSON.stringify(report))
  }
}

function addTest(report: TestReport, module: TestModule, test: TestCase): void {
  const name = `${module.relativeModuleId} > ${test.fullName}`
  const result = test.result()
  if (result.state === 'passed') report.passed += 1
  else if (result.state === 'skipped') report.skipped.push({ name, reason: result.note ?? reasonOf(test) })
  else report.failed.push(name)
}

/** The reason given with the test, or with a suite around it (see skip-unless.ts). */
function reasonOf(test: TestCase): string {
  for (let at: TestCase | TestSuite | TestModule = test; at.type !== 'module'; at = at.parent) {
    const { skipReason } = at.meta()
    if (skipReason !== undefined) return skipReason
  }
  return 'no reason given'
}

function firstLine(error: { message: string }): string {
  return error.message.split('\n')[0]!
}
