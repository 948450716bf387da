/** All that may happen to the table's files, where `npm test` has a few. */

process.env.FAULTS = 'all'
await import('../../e2e/table-faults.test.ts')
