import { defineConfig } from 'vitest/config'
import { ReportFile } from './test/support/report-file.ts'

const reportFile = process.env.TEST_REPORT_FILE

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    // Against tests that hang, not to time them: a machine with other work is ten times slower.
    testTimeout: 120_000,
    hookTimeout: 120_000,
    pool: 'forks',
    maxWorkers: 2,
    reporters: reportFile === undefined ? ['default'] : ['default', new ReportFile(reportFile)],
  },
})
