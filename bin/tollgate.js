#!/usr/bin/env node
/** `tollgate <command>`: see src/cli/main.ts for the commands. */
import { launch } from './runtime.js'

await launch('src/cli/main.ts', process.argv.slice(2), { dev: false })
