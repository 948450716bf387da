/** The commands of `tollgate`. Each is loaded on demand. */
import { cacheCompiled } from '../runtime/compile-cache.ts'
import { boundHeap } from '../runtime/heap.ts'
import { readVersion } from '../runtime/package-root.ts'

const usage = `Usage: tollgate <command>

  up               run the whole gateway on this machine: Envoy, the service, a sample model server
  serve            run only the service
  controller       write the statuses of the resources in a cluster
  drain            let the gateway finish its requests and refuse new ones before it is stopped
  doctor           say what is wrong now, the worst first, and where the runbook has the remedy
  check <folder>   validate a folder of resources and print every problem
  export [<file>]  convert the original's resources to ours, from a cluster or files
  migrate          migrate the database schema; take over the original service's keys
  envoy-config     print, write or validate the configuration of an Envoy of your own
  replicas         list the processes that a revocation waits for; forget <name>: remove one
  cleanup [<url>]  make a running service delete expired ephemeral keys now
  revocations      replay <file>...: repeat revocations that a restored database lacks
  key <command>    create, list, rotate and revoke API keys
  explain <model>  say whether a request would be let through, and why
  usage            show how many tokens were used; verify: compare the sums with the journal; forget <user>: remove a name
  limits           show what is left of your token limits
  simulate <folder>  replay past usage with other resources: who would have been refused
  demo             make keys and traffic for the gateway of tollgate up
  counter          show or reset the token counters of a user
  help <command>   describe a command; the same as <command> --help
  --version        print the version

Settings come from the environment; docs/settings.md lists them.`

// `help check` is `check --help`; `help` alone prints this text.
const [first, ...rest] = process.argv.slice(2)
const [command, args] =
  first === 'help' && rest[0] !== undefined ? [rest[0], ['--help']] : [first, rest]

if (command === 'serve') boundHeap()
cacheCompiled()
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
    serve: async () => (await import('./serve.ts')).serveCommand(args, env),
    controller: async () => (await import('./controller.ts')).controllerCommand(args, env),
    drain: async () => (await import('./drain.ts')).drain(args, env),
    check: async () => (await import('./check.ts')).check(args, env),
    doctor: async () => (await import('./doctor.ts')).doctor(args),
    export: async () => (await import('./export.ts')).exportCommand(args),
    migrate: async () => (await import('./migrate.ts')).migrate(args, env),
    'envoy-config': async () => (await import('./envoy-config.ts')).envoyConfig(args, env),
    replicas: async () => (await import('./replicas.ts')).replicas(args),
    cleanup: async () => (await import('./cleanup.ts')).cleanup(args),
    revocations: async () => (await import('./revocations.ts')).revocations(args),
    key: async () => (await import('./key.ts')).key(args),
    explain: async () => (await import('./explain.ts')).explain(args),
    usage: async () =>
      args[0] === 'forget'
        ? (await import('./forget-usage.ts')).forgetUsage(args.slice(1))
        : args[0] === 'verify'
          ? (await import('./verify-usage.ts')).verifyUsageCommand(args.slice(1))
          : (await import('./show-usage.ts')).showUsage(args),
    limits: async () => (await import('./show-limits.ts')).showLimits(args),
    simulate: async () => (await import('./simulate.ts')).simulate(args),
    demo: async () => (await import('./demo.ts')).demo(args),
    counter: async () => (await import('./counter.ts')).counter(args),
    help: () => print(usage),
    version: () => print(readVersion()),
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
