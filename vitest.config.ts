import { defineConfig } from 'vitest/config'
import { ReportFile } from './test/support/report-file.ts'

const reportFile = process.env.TEST_REPORT_FILE

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    testTimeout: 60_000,
    hookTimeout: 60_000,
    pool: 'forks',
    maxWorkers: 2,
    reporters: reportFile === undefined ? ['default'] : ['default', new ReportFile(reportFile)],
  },
})
