import { spawn } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import { inMemory } from '../../dev/journal-place.ts'
import { startEmbeddedPostgres } from '../../dev/postgres/embedded-postgres.ts'
import { reap } from '../../dev/run-records.ts'
import { packageRoot } from '../../src/runtime/package-root.ts'
import { envoyPath } from './envoy-binary.ts'
import { freePorts } from './free-ports.ts'
import './time-limit.ts'

/** How long a command may take to print something: one that installs packages takes minutes on a busy machine. */
const outputWithinMs = 450_000

/** A `tollgate` command under test. */
export interface RunningTollgate {
  readonly pid: number
  /** Everything that it has printed so far. */
  output(): string
  /** Waits until it has printed this text; fails if it ends before, or hangs. */
  until(text: string): Promise<void>
  /** The exit code, or the name of the signal that ended it. */
  readonly ended: Promise<number | string>
  signal(name: NodeJS.Signals): void
}

/** Settings of a complete gateway that may run beside others: its own addresses, and this data folder. */
export async function ownSettings(dataDir: string): Promise<Record<string, string>> {
  const settings = ['GATEWAY', 'API', 'INTERNAL', 'GRPC', 'METRICS', 'MODEL_SERVER']
  const ports = await freePorts(settings.length)
  return {
    DATA_DIR: dataDir,
    ENVOY_PATH: envoyPath() ?? '',
    ...Object.fromEntries(settings.map((name, i) => [`${name}_ADDRESS`, `127.0.0.1:${ports[i]}`])),
  }
}

/** Runs `tollgate` with only these settings; when `t` ends, so does everything that it started. */
export function runTollgate(
  t: Test,
  args: readonly string[],
  settings: Record<string, string>,
  root = packageRoot,
): RunningTollgate {
  const { SERVICE_BUNDLE } = process.env
  const isBundled = SERVICE_BUNDLE !== undefined && root === packageRoot
  const program = isBundled ? SERVICE_BUNDLE : join(root, 'bin', 'tollgate.js')
  const command = [process.execPath, program, ...args]
  const { PATH, HOME } = process.env
  const env = { PATH, HOME, ...settings }
  return runCommand(t, command, { env, cwd: packageRoot }, settings.DATA_DIR)
}

/** Runs any command that starts Tollgate on `dataDir`, and cleans up after it in the same way. */
export function runCommand(
  t: Test,
  [command = '', ...args]: readonly string[],
  options: { readonly env: NodeJS.ProcessEnv; readonly cwd: string },
  dataDir: string | undefined,
): RunningTollgate {
  const child = spawn(command, args, { ...options, stdio: ['ignore', 'pipe', 'pipe'] })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text
    })
  }
  let isOver = false
  const ended = new Promise<number | string>((settle) => {
    child.on('error', (error) => settle(error.message))
    child.on('exit', (code, signal) => {
      isOver = true
      settle(code ?? signal ?? '')
    })
  })
  t.teardown(async () => {
    child.kill('SIGKILL')
    await ended
    if (dataDir !== undefined) await cleanUp(dataDir)
  })
  return {
    pid: child.pid ?? 0,
    output: () => output,
    async until(text) {
      const deadline = Date.now() + outputWithinMs
      while (!output.includes(text)) {
        if (isOver || Date.now() > deadline) throw new Error(`never said "${text}":\n${output}`)
        await sleep(20)
      }
    },
    ended,
    signal: (name) => child.kill(name),
  }
}

/** The processes that `tollgate up` has recorded, by name, and the server of its database. */
export function processesOf(dataDir: string): Record<string, number> {
  const found: Record<string, number> = {}
  if (!existsSync(join(dataDir, 'run'))) return found
  for (const file of readdirSync(join(dataDir, 'run'))) {
    if (!file.endsWith('.json') || file === 'addresses.json') continue
    const { pid } = JSON.parse(readFileSync(join(dataDir, 'run', file), 'utf8'))
    found[file.replace('.json', '')] = pid
  }
  const postgres = join(databaseHome(dataDir), 'data', 'postmaster.pid')
  if (existsSync(postgres)) found.postgres = Number(readFileSync(postgres, 'utf8').split('\n')[0])
  return found
}

/** The folder of its database, which for root is not always in the data folder. */
export function databaseHome(dataDir: string): string {
  const note = join(dataDir, 'postgres', 'kept-elsewhere')
  return existsSync(note) ? readFileSync(note, 'utf8').trim() : join(dataDir, 'postgres')
}

/** Cleans up after a failed test as the next start would, and removes files outside of the data folder. */
async function cleanUp(dataDir: string): Promise<void> {
  await reap(join(dataDir, 'run'), () => {})
  for (const each of inMemory(dataDir)) rmSync(each, { recursive: true, force: true })
  if (!existsSync(join(databaseHome(dataDir), 'data', 'postmaster.pid'))) return
  const database = await startEmbeddedPostgres({ directory: join(dataDir, 'postgres'), log() {} })
  await database.stop()
}
