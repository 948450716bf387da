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
  by(up, async (call, io) => (await import('./up.ts')).up(call, io)),
  by(demo, async (call, io) => (await import('./demo.ts')).demo(call, io)),
  by(serve, async (_call, io) => (await import('./serve.ts')).serveCommand(io.env)),
  by(controller, async (_call, io) => (await import('./controller.ts')).controllerCommand(io.env)),
  by(drain, async (call, io) => (await import('./drain.ts')).drain(call, io)),
  by(envoyConfig, async (call, io) => (await import('./envoy-config.ts')).envoyConfig(call, io)),
  by(login, async (call, io) => (await import('./login.ts')).login(call, io)),
  by(logout, async (call, io) => (await import('./login.ts')).logout(call, io)),
  by(newKey, async (call, io) => (await import('./key.ts')).newKey(call, io)),
  by(listKeys, async (call, io) => (await import('./list-keys.ts')).listKeys(call, io)),
  by(showKey, async (call, io) => (await import('./key.ts')).readKey(call, io)),
  by(editKey, async (call, io) => (await import('./key.ts')).editKey(call, io)),
  by(rotateKey, async (call, io) => (await import('./key.ts')).rotateKey(call, io)),
  by(revokeKeys, async (call, io) => (await import('./revoke-keys.ts')).revokeKeys(call, io)),
  by(explain, async (call, io) => (await import('./explain.ts')).explain(call, io)),
  by(limits, async (call, io) => (await import('./show-limits.ts')).showLimits(call, io)),
  by(resetLimits, async (call, io) => (await import('./counter.ts')).resetLimits(call, io)),
  by(listIncreases, async (call, io) => (await import('./increases.ts')).showIncreases(call, io)),
  by(grantIncrease, async (call, io) => (await import('./increases.ts')).grantIncrease(call, io)),
  by(endIncrease, async (call, io) => (await import('./increases.ts')).endIncrease(call, io)),
  by(listRequests, async (call, io) =>
    (await import('./limit-requests.ts')).showRequests(call, io),
  ),
  by(newRequest, async (call, io) => (await import('./limit-requests.ts')).newRequest(call, io)),
  by(approveRequest, async (call, io) =>
    (await import('./limit-requests.ts')).approveRequest(call, io),
  ),
  by(denyRequest, async (call, io) => (await import('./limit-requests.ts')).denyRequest(call, io)),
  by(usage, async (call, io) => (await import('./show-usage.ts')).showUsage(call, io)),
  by(verifyUsage, async (call, io) =>
    (await import('./verify-usage.ts')).verifyUsageCommand(call, io),
  ),
  by(forgetUsage, async (call, io) => (await import('./forget-usage.ts')).forgetUsage(call, io)),
  by(check, async (call, io) => (await import('./check.ts')).check(call, io)),
  by(simulate, async (call, io) => (await import('./simulate.ts')).simulate(call, io)),
  by(doctor, async (call, io) => (await import('./doctor.ts')).doctor(call, io)),
  by(migrate, async (call, io) => (await import('./migrate.ts')).migrate(call, io)),
  by(exportResources, async (call, io) => (await import('./export.ts')).exportCommand(call, io)),
  by(importPrices, async (call, io) => (await import('./import-prices.ts')).importPrices(call, io)),
  by(cleanup, async (call, io) => (await import('./cleanup.ts')).cleanup(call, io)),
  by(revocations, async (call, io) => (await import('./replicas.ts')).showReplicas(call, io)),
  by(forgetReplica, async (call, io) => (await import('./replicas.ts')).forgetReplica(call, io)),
  by(replay, async (call, io) => (await import('./revocations.ts')).replay(call, io)),
  by(completion, async (call, io) =>
    (await import('./completion.ts')).completion(call, io, commands.all),
  ),
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

function by<Given extends Flags>(command: Command<Given>, run: Run<Given>): [Command, Run] {
  return [command, run as unknown as Run]
}
