/**
 * The numbers of the advisory locks: of all processes that share a database, one holds a lock and does the work. Each
 * lock ends with its transaction.
 */
export const advisoryLocks = {
  migrations: 7_005_101_901,
  partitions: 7_005_101_902,
  /** Taken by a trigger of migration 0003. */
  revocations: 7_005_101_903,
  keyCleanup: 7_005_101_904,
  /** Taken to count the increases in force and add one. */
  increases: 7_005_101_905,
  /** With the hash of the user's name as a second number: taken to count the keys of a user and add one. */
  userKeys: 701_902,
} as const
