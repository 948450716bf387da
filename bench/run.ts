/** `npm run bench:parts`: the benches of parts, one table. */

import { cpus } from 'node:os'
import { benchCheck } from './check.bench.ts'
import { benchCluster } from './cluster.bench.ts'
import { benchCounters } from './counters.bench.ts'
import { benchDecide } from './decide.bench.ts'
import type { Figure } from './measure.ts'
import { benchResources } from './resources.bench.ts'
import { benchUsage } from './usage.bench.ts'

const figures: Figure[] = [
  ...benchDecide(),
  ...(await benchCheck()),
  ...(await benchUsage()),
  ...(await benchCounters()),
  ...(await benchResources()),
  ...(await benchCluster()),
]
const width = Math.max(...figures.map(({ name }) => name.length))
console.log(`Node ${process.version}, ${cpus()[0]?.model.trim()}, ${cpus().length} cores\n`)
for (const { name, value } of figures) console.log(`${name.padEnd(width)}  ${value}`)
