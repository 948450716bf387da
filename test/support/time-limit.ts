import root from 'tap'

/** The time limit that `npm test` gives a file. */
const limitMs = 600_000

// Run by Node itself, a file would have tap's 30 s, too little for one that starts a database.
if (process.env.TAP_TIMEOUT === undefined) root.setTimeout(limitMs)
