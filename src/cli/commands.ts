/** All commands, in the order in which help lists them, and the old names of some. */

import { editKey, listKeys, newKey, revokeKeys, rotateKey, showKey } from './commands/keys.ts'
import {
  check,
  cleanup,
  doctor,
  exportResources,
  forgetReplica,
  migrate,
  replay,
  revocations,
  simulate,
} from './commands/operate.ts'
import { controller, demo, drain, envoyConfig, serve, up } from './commands/run.ts'
import { completion, login, logout } from './commands/shell.ts'
import { explain, forgetUsage, limits, resetLimits, usage, verifyUsage } from './commands/usage.ts'
import type { Commands } from './parse-command.ts'

export const commands: Commands = {
  all: [
    ...[up, demo, serve, controller, drain, envoyConfig],
    ...[login, logout],
    ...[newKey, listKeys, showKey, editKey, rotateKey, revokeKeys],
    ...[explain, limits, resetLimits, usage, verifyUsage, forgetUsage],
    ...[check, simulate, doctor, migrate, exportResources, cleanup],
    ...[revocations, forgetReplica, replay],
    completion,
  ],
  /** Kept until the release after the one that renamed them. */
  renamed: {
    'counter show': 'limits',
    'counter reset': 'limits reset',
    replicas: 'revocations',
    'replicas forget': 'revocations forget',
  },
}
