/** A process of a gateway that is to be killed. Arguments: USAGE_JOURNAL, DATA_DIR. Says `ready` once it writes. */

import { poll } from '../../support/poll.ts'
import { openProcess } from './journal-sums-world.ts'

const [path = '', dataDir = ''] = process.argv.slice(2)
const { sums } = await openProcess({ path, dataDir }, { keptFiles: 4 })
await poll(() => sums.isWriter, 'the one before is seen to have ended')
console.log('ready')
setInterval(() => {}, 1_000)
