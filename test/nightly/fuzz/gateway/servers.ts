/**
 * The model servers behind the gateway: real ones of eight ecosystems, installed and started here.
 */
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { createInterface } from 'node:readline'
import type { Test } from 'tap'
import { fetchWheel, findOnPath, type Wheel, wheelFolder } from '../../../../dev/python-wheel.ts'
import { packageRoot } from '../../../../src/runtime/package-root.ts'
import { goBuildEnv } from '../../../support/go-build.ts'
import { type ReadServed, readHeader, readTimings } from './lane.ts'

/** A running server; variants differ in how they find the handler. */
export interface Variant {
  readonly name: string
  readonly port: number
  readonly read: ReadServed
  /** `spec.output` of its ModelRefs. */
  readonly output?: object
}

interface Kind {
  /** Installs what is needed; throws with the reason if that is not possible. */
  prepare(): Promise<Command>
  readonly read: ReadServed
}

interface Command {
  readonly line: readonly string[]
  readonly env?: NodeJS.ProcessEnv
}

const here = join(packageRoot, 'test', 'nightly', 'fuzz', 'gateway', 'servers')
const tools = join(packageRoot, '.tools')

const kinds: Readonly<Record<string, Kind>> = {
  aiohttp: {
    read: readHeader,
    prepare: () =>
      python('aiohttp_server.py', {
        name: 'aiohttp',
        folder: 'fuzz-aiohttp-3.14.5',
        requirements: join(here, 'aiohttp-requirements.txt'),
        howElse: 'leave it out of FUZZ_SERVERS',
        proof: join('aiohttp', 'web.py'),
      }),
  },
  express: {
    read: readHeader,
    prepare: async () => ({ line: [process.execPath, join(here, 'express.js')] }),
  },
  fastapi: {
    read: readHeader,
    prepare: () =>
      python('fastapi_server.py', {
        name: 'fastapi',
        folder: 'fuzz-fastapi-0.165.0',
        requirements: join(here, 'fastapi-requirements.txt'),
        howElse: 'leave it out of FUZZ_SERVERS',
        proof: join('fastapi', '__init__.py'),
      }),
  },
  go: {
    read: readHeader,
    prepare: async () => {
      const program = join(tools, 'fuzz-go', 'chat')
      // With the build cache a second build takes about a second.
      run(need('go'), ['build', '-o', program, '.'], join(here, 'go'), goBuildEnv(process.env))
      return { line: [program] }
    },
  },
  jackson: {
    read: readHeader,
    prepare: async () => java('jackson', 'fuzz-jackson-2.19.2'),
  },
  llama: {
    read: readTimings,
    prepare: () =>
      python('llama.py', {
        name: 'xllamacpp',
        folder: 'fuzz-xllamacpp-2026.10.11549',
        requirements: join(here, 'llama-requirements.txt'),
        howElse: 'leave llama out of FUZZ_SERVERS',
        proof: join('xllamacpp', '__init__.py'),
      }),
  },
  spring: {
    read: readHeader,
    prepare: async () => java('spring', 'fuzz-spring-boot-3.5.6'),
  },
}

/** The names of all servers. */
export const serverNames: readonly string[] = Object.keys(kinds)

/** Starts a server, which ends with `t`; rejects with the reason if it cannot be installed. */
export async function startServer(t: Test, name: string): Promise<readonly Variant[]> {
  const kind = kinds[name]
  if (kind === undefined) throw new Error(`no server is called ${name}`)
  const { line, env } = await kind.prepare()
  const [program = '', ...args] = line
  const child = spawn(program, args, {
    env: { ...process.env, ...env },
    cwd: here,
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  let complaint = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    complaint = (complaint + text).slice(-4_000)
  })
  const ended = once(child, 'close').catch(() => {})
  t.teardown(async () => {
    child.kill('SIGKILL')
    await ended
  })
  const lines = createInterface({ input: child.stdout })
  const first = await Promise.race([once(lines, 'line'), ended.then(() => [undefined])])
  if (first[0] === undefined) throw new Error(`${name} did not start: ${complaint}`)
  const ports = JSON.parse(first[0]) as Record<string, number>
  return Object.entries(ports).map(([way, port]) => ({
    name: way.includes('-') ? way : `${name}-${way}`,
    port,
    read: kind.read,
  }))
}

async function python(file: string, wheel: Wheel): Promise<Command> {
  need('python3')
  const library = wheelFolder(wheel)
  if (!existsSync(join(library, wheel.proof))) await fetchWheel(wheel, { env: process.env })
  const PYTHONPATH = [library, process.env.PYTHONPATH].filter(Boolean).join(delimiter)
  return { line: ['python3', join(here, file)], env: { PYTHONPATH, PYTHONDONTWRITEBYTECODE: '1' } }
}

/** `Chat.java` of a folder with the jars of its pom.xml, which are kept in `kept`. */
function java(folder: string, kept: string): Command {
  const program = need('java')
  const jars = join(tools, kept)
  if (!existsSync(jars)) {
    const goal = ['-q', '-B', 'dependency:copy-dependencies', `-DoutputDirectory=${jars}`]
    run(need('mvn'), goal, join(here, folder))
  }
  return { line: [program, '-cp', join(jars, '*'), join(here, folder, 'Chat.java')] }
}

function need(program: string): string {
  const found = findOnPath(program, process.env)
  if (found === undefined) throw new Error(`${program} is not on PATH`)
  return found
}

function run(program: string, args: readonly string[], cwd: string, env = process.env): void {
  mkdirSync(tools, { recursive: true })
  const { status, stderr, stdout } = spawnSync(program, args, { cwd, env, encoding: 'utf8' })
  if (status !== 0) throw new Error(`${program} ended with ${status}: ${stderr}${stdout}`)
}
