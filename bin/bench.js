/** `npm run bench`: see bench/gateway/main.ts. */
import { launch } from './runtime.js'

await launch('bench/gateway/main.ts', process.argv.slice(2), { dev: true })
