/** Programs run by a user without an entry in /etc/passwd, such as those that OpenShift assigns. */

import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { packageRoot } from '../../src/runtime/package-root.ts'

const user = { uid: 54_321, gid: 0 }
const main = join(packageRoot, 'src', 'cli', 'main.js')

/** Why it is not possible here, or false. */
export const skipUnnamedUser =
  (process.getuid?.() !== 0 && 'needs root') ||
  (spawnSync('test', ['-r', main], user).status !== 0 && 'others cannot read the clone') ||
  (spawnSync('test', ['-x', process.execPath], user).status !== 0 && 'others cannot run Node')

/** Runs Node with these arguments and only these variables. */
export function runUnnamed(args: readonly string[], env: NodeJS.ProcessEnv) {
  const all = { PATH: process.env.PATH, ...env }
  return spawnSync(process.execPath, args, { ...user, cwd: '/', env: all, encoding: 'utf8' })
}

/** Runs a `tollgate` command. */
export const tollgateUnnamed = (args: readonly string[], env: NodeJS.ProcessEnv) =>
  runUnnamed([main, ...args], env)
