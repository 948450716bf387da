/**
 * Client libraries that are not dependencies of the repository: downloaded once, into `.tools` and
 * test/nightly/compat.
 */

import { execFile, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { text } from 'node:stream/consumers'
import { promisify } from 'node:util'
import { fetchWheel, type Wheel, wheelFolder } from '../../../dev/python-wheel.ts'

export const here = import.meta.dirname

/**
 * Sets of Python libraries that can be installed together, each with a file that exists once it is
 * complete.
 */
const proofs = {
  clients: join('agents', '__init__.py'),
  'llama-index': join('llama_index', 'llms', 'openai_like', '__init__.py'),
  litellm: join('litellm', '__init__.py'),
  openapi: join('openapi_python_client', '__init__.py'),
} as const

export type PythonSet = keyof typeof proofs

/** Returns the environment in which Python finds a set; downloads it if it is missing. */
export async function pythonWith(set: PythonSet): Promise<NodeJS.ProcessEnv> {
  const wheel: Wheel = {
    name: `the Python libraries of ${set}`,
    folder: `compat-${set}-2026-11`,
    requirements: join(here, 'requirements', `${set}.txt`),
    howElse: 'leave npm run compat out',
    proof: proofs[set],
  }
  const folder = wheelFolder(wheel)
  if (!existsSync(join(folder, wheel.proof))) await fetchWheel(wheel, { env: process.env })
  return {
    ...process.env,
    PYTHONPATH: [folder, process.env.PYTHONPATH].filter(Boolean).join(delimiter),
    PYTHONDONTWRITEBYTECODE: '1',
    // No library may download more files or send telemetry.
    LITELLM_LOCAL_MODEL_COST_MAP: 'True',
    OPENAI_AGENTS_DISABLE_TRACING: '1',
    LANGSMITH_TRACING: 'false',
  }
}

/**
 * Installs the npm packages of this folder, or of one in it, from its lockfile. Where a registry lacks
 * packages that are optional, they are left out: some programs then do not start.
 */
export function installPackages(folder = '.'): void {
  const cwd = join(here, folder)
  const isComplete = join(cwd, 'node_modules', '.package-lock.json')
  if (existsSync(isComplete)) return
  const lenient = ['install', '--no-save']
  const complaints = [['ci'], lenient, [...lenient, '--omit=optional']].map((args) => {
    if (existsSync(isComplete)) return ''
    const line = [...args, '--no-audit', '--no-fund']
    return spawnSync('npm', line, { cwd, encoding: 'utf8' }).stderr
  })
  if (!existsSync(isComplete)) throw new Error(`npm in ${cwd}: ${complaints.join('\n')}`)
}

/** Whether a toolchain is on PATH: a program that answers this argument. */
export function hasTool(program: string, argument: string): boolean {
  return spawnSync(program, [argument]).status === 0
}

/** Builds the Go program of this folder; the first build downloads and compiles for minutes. */
export async function buildGoClients(to: string): Promise<string> {
  const program = join(to, 'clients')
  await promisify(execFile)('go', ['build', '-o', program, '.'], { cwd: join(here, 'go') })
  return program
}

/** The same for the Rust program. */
export async function buildRustClients(to: string): Promise<string> {
  const args = ['build', '--locked', '--quiet', '--target-dir', to]
  await promisify(execFile)('cargo', args, { cwd: join(here, 'rust') })
  return join(to, 'debug', 'clients')
}

/** Returns the class path of the Java libraries, which Maven downloads into a folder. */
export async function fetchJavaLibraries(to: string): Promise<string> {
  const args = ['-q', '-B', 'dependency:copy-dependencies', `-DoutputDirectory=${to}`]
  await promisify(execFile)('mvn', args, { cwd: join(here, 'java') })
  return join(to, '*')
}

/** The longest run of an agent. */
const maxRunMs = 240_000

/** Runs a program in its own home; returns all that it prints, whatever its exit status. */
export async function runToEnd(
  line: {
    readonly program: string
    readonly args: readonly string[]
    readonly env: Readonly<Record<string, string>>
  },
  home: string,
): Promise<string> {
  const { PATH = '' } = process.env
  const child = spawn(line.program, line.args, {
    // Nothing of the person who runs the test: no credential, no settings.
    env: { PATH, HOME: home, TERM: 'dumb', NO_COLOR: '1', ...line.env },
    cwd: home,
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: maxRunMs,
  })
  const [output, complaint] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'close'),
  ])
  return output + complaint
}

/** Runs a program and returns the JSON in its last line. */
export async function runForJson(
  line: readonly [string, ...string[]],
  env: NodeJS.ProcessEnv,
): Promise<Record<string, string>> {
  const [program, ...args] = line
  const child = spawn(program, args, { env, cwd: here, stdio: ['ignore', 'pipe', 'pipe'] })
  const [output, complaint, [status]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'close'),
  ])
  if (status !== 0) throw new Error(`${line.join(' ')} ended with ${status}: ${complaint}`)
  return JSON.parse(output.trim().split('\n').at(-1) ?? '')
}
