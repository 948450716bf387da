/** The commands of `tollgate`. Each is loaded on demand. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { packageRoot } from '../package-root.ts'

const usage = `Usage: tollgate <command>

  up               the whole gateway on this machine: Envoy, the service, a sample model server
  serve            the service only
  controller       writes the statuses of the resources in a cluster
  drain            have the gateway finish its requests and take no new ones, before it is ended
  check <folder>   validate a folder of resources; exit 1 with every problem named
  export [<file>]  print the original's resources as ours, from a cluster or files
  migrate          bring the database to our schema; take over the original service's keys
  envoy-config     print, write or validate the configuration of an Envoy of your own
  replicas         the processes that a revocation waits for; forget <name>: one that is gone for good
  cleanup [<url>]  have a running service delete expired ephemeral keys, as it does every 15 minutes
  revocations      replay <file>...: revoke again what a restored database has forgotten
  bench            what a request costs, beside an Envoy that only passes it on; one table
  key <command>    make, list and revoke API keys: new, list, revoke
  help <command>   what it takes; the same as <command> --help
  --version        the version

Settings come from the environment; docs/settings.md lists them.`

// `help check` is `check --help`; `help` alone prints this text.
const [first, ...rest] = process.argv.slice(2)
const [command, args] =
  first === 'help' && rest[0] !== undefined ? [rest[0], ['--help']] : [first, rest]

try {
  process.exitCode = await run()
} catch (error) {
  console.error(explain(error))
  process.exit(1)
}

async function run(): Promise<number> {
  const { env } = process
  const commands: Readonly<Record<string, () => Promise<number> | number>> = {
    up: async () => (await import('./up.ts')).up(args, env),
    serve: async () => {
      await import('./heap.ts').then(({ boundHeap }) => boundHeap())
      return (await import('./serve.ts')).serveCommand(args, env)
    },
    controller: async () => (await import('./controller.ts')).controllerCommand(args, env),
    drain: async () => (await import('./drain.ts')).drain(args, env),
    check: async () => (await import('./check.ts')).check(args),
    export: async () => (await import('./export.ts')).exportCommand(args),
    migrate: async () => (await import('./migrate.ts')).migrate(args, env),
    'envoy-config': async () => (await import('./envoy-config.ts')).envoyConfig(args, env),
    replicas: async () => (await import('./replicas.ts')).replicas(args),
    cleanup: async () => (await import('./cleanup.ts')).cleanup(args),
    revocations: async () => (await import('./revocations.ts')).revocations(args),
    bench: async () => (await import('./bench.ts')).bench(args, env),
    key: async () => (await import('./key.ts')).key(args),
    help: () => print(usage),
    version: () =>
      print(JSON.parse(readFileSync(join(packageRoot, 'package.json'), 'utf8')).version),
  }
  const name = { '--help': 'help', '-h': 'help', '--version': 'version' }[`${command}`] ?? command
  if (name !== undefined && Object.hasOwn(commands, name)) return (await commands[name]?.()) ?? 2
  if (command !== undefined) console.error(`There is no command "${command}".\n`)
  console.error(usage)
  return 2
}

function print(text: string): number {
  console.log(text)
  return 0
}

/** An error that the user can fix is a sentence with its causes; a bug is shown with its stack. */
function explain(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  if (['TypeError', 'RangeError', 'ReferenceError', 'SyntaxError'].includes(error.name)) {
    return error.stack ?? error.message
  }
  return error.cause instanceof Error ? `${error.message} (${error.cause.message})` : error.message
}
