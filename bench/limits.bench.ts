/** What limits by name cost a Check. `node bench/limits.bench.ts`. */

import { benchNamedLimits } from './check.bench.ts'

for (const { name, value } of await benchNamedLimits()) console.log(`| ${name} | ${value} |`)
