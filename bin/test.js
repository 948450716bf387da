/** `npm test`: see test/run.ts. */
import { launch } from './runtime.js'

await launch('test/run.ts', process.argv.slice(2), { dev: true })
