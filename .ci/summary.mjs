// Adds up the steps of .ci/run and the tests' report: `summary.mjs STEPS.tsv REPORT.json`.
// Each test counts as one, and so does each other step. Plain JavaScript, because any Node may run it.
import { existsSync, readFileSync } from 'node:fs'

const [stepsFile, reportFile] = process.argv.slice(2)
const steps = readFileSync(stepsFile, 'utf8')
  .trim()
  .split('\n')
  .map((line) => line.split('\t'))
const report = existsSync(reportFile)
  ? JSON.parse(readFileSync(reportFile, 'utf8'))
  : { passed: 0, failed: ['the test run left no report'], skipped: [] }

let passed = report.passed
const failed = [...report.failed]
for (const [name, code, seconds] of steps) {
  console.log(`${code === '0' ? 'ok    ' : 'FAILED'} ${name} (${seconds} s)`)
  if (name === 'tests') {
    if (code !== '0' && failed.length === 0) failed.push(`npm test exited with ${code}`)
  } else if (code === '0') passed += 1
  else failed.push(`${name} exited with ${code}`)
}
if (report.passed === 0 && report.failed.length === 0) failed.push('no test ran')

console.log(`tests: ${report.passed} passed, ${report.failed.length} failed, ${report.skipped.length} skipped`)
for (const { name, reason } of report.skipped) console.log(`skipped: ${name}: ${reason}`)
for (const name of failed) console.log(`failed: ${name}`)
console.log(`${passed} passed, ${failed.length} failed`)
process.exitCode = failed.length === 0 ? 0 : 1
