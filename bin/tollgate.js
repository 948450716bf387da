#!/usr/bin/env node
/** `tollgate <command>`: see src/cli/main.js for the commands. */
import { launch } from './runtime.js'

await launch('src/cli/main.js', process.argv.slice(2), { dev: false })
