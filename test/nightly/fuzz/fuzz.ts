/** Fuzzes the API with schemathesis (PyPI), which generates requests from /openapi.json. */

import { spawn } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fetchWheel, type Wheel, wheelFolder } from '../../../dev/python-wheel.ts'
import { packageRoot } from '../../../src/runtime/package-root.ts'

const here = join(packageRoot, 'test', 'nightly', 'fuzz')
const wheel: Wheel = {
  name: 'schemathesis',
  folder: 'schemathesis',
  requirements: join(here, 'requirements.txt'),
  howElse: 'leave test/nightly/fuzz out',
  proof: join('schemathesis', 'cli', '__init__.py'),
}
const library = wheelFolder(wheel)

export interface FuzzOptions {
  /** Base URL of a running API. */
  readonly url: string
  /** A bearer credential; undefined: none. */
  readonly credential: string | undefined
  /** The approximate number of requests for each operation in each phase. */
  readonly examples: number
  readonly seed: number
}

export interface FuzzResult {
  readonly passed: boolean
  /** The output of schemathesis. */
  readonly report: string
}

/** Downloads schemathesis by pip, once; throws if that fails. */
export async function installSchemathesis(): Promise<void> {
  if (!existsSync(join(library, wheel.proof))) await fetchWheel(wheel, { env: process.env })
}

/** Runs schemathesis against a running API. */
export async function fuzz(options: FuzzOptions): Promise<FuzzResult> {
  const { url, credential, examples, seed } = options
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-fuzz-'))
  try {
    const args = ['-m', 'schemathesis.cli', '--config-file', join(here, 'schemathesis.toml'), 'run']
    args.push(`${url}/openapi.json`, '--url', url, '--no-color')
    args.push('--max-examples', String(examples), '--seed', String(seed))
    // Generating requests takes long on a busy machine.
    args.push('--suppress-health-check', 'too_slow')
    if (credential !== undefined) args.push('--header', `Authorization: Bearer ${credential}`)
    const env = {
      ...process.env,
      PYTHONPATH: library,
      PYTHONDONTWRITEBYTECODE: '1',
      // tap asks its children for colors. They come with carriage returns, which in a comment break
      // tap's own parser: a failed run would pass.
      FORCE_COLOR: undefined,
      NO_COLOR: '1',
    }
    const { status, output } = await python(args, env, folder)
    return { passed: status === 0, report: output }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

async function python(
  args: readonly string[],
  env: NodeJS.ProcessEnv,
  cwd = packageRoot,
): Promise<{ readonly status: number | null; readonly output: string }> {
  const child = spawn('python3', args, { env, cwd, stdio: ['ignore', 'pipe', 'pipe'] })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text
    })
  }
  const status = await new Promise<number | null>((resolve) => {
    child.on('error', (error) => {
      output += error.message
      resolve(null)
    })
    child.on('close', resolve)
  })
  return { status, output }
}
