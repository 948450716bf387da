import { join } from 'node:path'
import type { Test } from 'tap'
import { packageRoot } from '../../../src/runtime/package-root.ts'
import { type RunningTollgate, runCommand } from '../../support/tollgate.ts'

/** Runs `npm run bench` with these arguments and only these variables of the environment. */
export function runBench(
  t: Test,
  args: readonly string[],
  settings: Record<string, string>,
): RunningTollgate {
  const { PATH, HOME } = process.env
  const command = [process.execPath, join(packageRoot, 'bin', 'bench.js'), ...args]
  return runCommand(t, command, { env: { PATH, HOME, ...settings }, cwd: packageRoot }, undefined)
}
