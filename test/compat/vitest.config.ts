import { defineConfig } from 'vitest/config'

// `npm run test:compat`: real clients. Gigabytes of packages and minutes, so not part of `npm test`.
export default defineConfig({
  test: {
    root: new URL('../..', import.meta.url).pathname,
    include: ['test/compat/*.compat.ts'],
    testTimeout: 180_000,
    hookTimeout: 1_800_000,
    pool: 'forks',
    maxWorkers: 1,
  },
})
