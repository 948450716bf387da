/** All commands with what runs each, which is loaded only when it is, and the old names of some. */

import type { Call, Command, Flags } from './command.ts'
import {
  approveRequest,
  denyRequest,
  endIncrease,
  grantIncrease,
  listIncreases,
  listRequests,
  newRequest,
} from './commands/increases.ts'
import { editKey, listKeys, newKey, revokeKeys, rotateKey, showKey } from './commands/keys.ts'
import {
  check,
  cleanup,
  doctor,
  exportResources,
  forgetReplica,
  importPrices,
  migrate,
  replay,
  revocations,
  simulate,
} from './commands/operate.ts'
import { controller, demo, drain, envoyConfig, serve, up } from './commands/run.ts'
import { completion, login, logout } from './commands/shell.ts'
import { explain, forgetUsage, limits, resetLimits, usage, verifyUsage } from './commands/usage.ts'
import type { Commands } from './parse-command.ts'
import type { CommandIo } from './terminal.ts'

/** Returns the exit status. Rejects with a readable error. */
export type Run<Given extends Flags = Flags> = (call: Call<Given>, io: CommandIo) => Promise<number>

/** In the order in which help lists them. */
const rows: readonly (readonly [Command, Run])[] = [
  by(up, async () => (await import('./up.ts')).up),
  by(demo, async () => (await import('./demo.ts')).demo),
  by(serve, async () => (await import('./serve.ts')).serveCommand),
  by(controller, async () => (await import('./controller.ts')).controllerCommand),
  by(drain, async () => (await import('./drain.ts')).drain),
  by(envoyConfig, async () => (await import('./envoy-config.ts')).envoyConfig),
  by(login, async () => (await import('./login.ts')).login),
  by(logout, async () => (await import('./login.ts')).logout),
  by(newKey, async () => (await import('./key.ts')).newKey),
  by(listKeys, async () => (await import('./list-keys.ts')).listKeys),
  by(showKey, async () => (await import('./key.ts')).readKey),
  by(editKey, async () => (await import('./key.ts')).editKey),
  by(rotateKey, async () => (await import('./key.ts')).rotateKey),
  by(revokeKeys, async () => (await import('./revoke-keys.ts')).revokeKeys),
  by(explain, async () => (await import('./explain.ts')).explain),
  by(limits, async () => (await import('./show-limits.ts')).showLimits),
  by(resetLimits, async () => (await import('./counter.ts')).resetLimits),
  by(listIncreases, async () => (await import('./increases.ts')).showIncreases),
  by(grantIncrease, async () => (await import('./increases.ts')).grantIncrease),
  by(endIncrease, async () => (await import('./increases.ts')).endIncrease),
  by(listRequests, async () => (await import('./limit-requests.ts')).showRequests),
  by(newRequest, async () => (await import('./limit-requests.ts')).newRequest),
  by(approveRequest, async () => (await import('./limit-requests.ts')).approveRequest),
  by(denyRequest, async () => (await import('./limit-requests.ts')).denyRequest),
  by(usage, async () => (await import('./show-usage.ts')).showUsage),
  by(verifyUsage, async () => (await import('./verify-usage.ts')).verifyUsageCommand),
  by(forgetUsage, async () => (await import('./forget-usage.ts')).forgetUsage),
  by(check, async () => (await import('./check.ts')).check),
  by(simulate, async () => (await import('./simulate.ts')).simulate),
  by(doctor, async () => (await import('./doctor.ts')).doctor),
  by(migrate, async () => (await import('./migrate.ts')).migrate),
  by(exportResources, async () => (await import('./export.ts')).exportCommand),
  by(importPrices, async () => (await import('./import-prices.ts')).importPrices),
  by(cleanup, async () => (await import('./cleanup.ts')).cleanup),
  by(revocations, async () => (await import('./replicas.ts')).showReplicas),
  by(forgetReplica, async () => (await import('./replicas.ts')).forgetReplica),
  by(replay, async () => (await import('./revocations.ts')).replay),
  by(completion, async () => (await import('./completion.ts')).completionOf(commands.all)),
]

export const commands: Commands = {
  all: rows.map(([command]) => command),
  /** Kept until the release after the one that renamed them. */
  renamed: {
    counter: 'limits',
    'counter show': 'limits',
    'counter reset': 'limits reset',
    replicas: 'revocations',
    'replicas forget': 'revocations forget',
  },
}

/** By the name of the command. */
export const runners: ReadonlyMap<string, Run> = new Map(rows.map(([{ name }, run]) => [name, run]))

function by<Given extends Flags>(
  command: Command<Given>,
  load: () => Promise<Run<Given>>,
): [Command, Run] {
  const run: Run<Given> = async (call, io) => await (await load())(call, io)
  return [command, run as unknown as Run]
}
