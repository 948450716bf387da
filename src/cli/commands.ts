/** All commands and their old names. The code of a command is loaded only when it runs. */

import type { Call, Command, Flags } from './command.ts'
import {
  approveRequestCommand,
  denyRequestCommand,
  endIncreaseCommand,
  grantIncreaseCommand,
  listIncreasesCommand,
  listRequestsCommand,
  newRequestCommand,
} from './commands/increases.ts'
import {
  editKeyCommand,
  listKeysCommand,
  newKeyCommand,
  revokeKeysCommand,
  rotateKeyCommand,
  showKeyCommand,
} from './commands/keys.ts'
import {
  checkCommand,
  cleanupCommand,
  doctorCommand,
  exportResourcesCommand,
  forgetReplicaCommand,
  importPricesCommand,
  migrateCommand,
  replayCommand,
  revocationsCommand,
  simulateCommand,
} from './commands/operate.ts'
import {
  controllerCommand,
  demoCommand,
  drainCommand,
  envoyConfigCommand,
  serveCommand,
  upCommand,
} from './commands/run.ts'
import { completionCommand, loginCommand, logoutCommand } from './commands/shell.ts'
import {
  explainCommand,
  forgetUsageCommand,
  limitsCommand,
  resetLimitsCommand,
  usageCommand,
  verifyUsageCommand,
} from './commands/usage.ts'
import type { Commands } from './parse-command.ts'
import type { CommandIo } from './terminal.ts'

/** Returns the exit status. Rejects with a readable error. */
export type Run<Given extends Flags = Flags> = (call: Call<Given>, io: CommandIo) => Promise<number>

/** In the order in which help lists them. */
const rows: readonly (readonly [Command, Run])[] = [
  by(upCommand, async () => (await import('./up.ts')).up),
  by(demoCommand, async () => (await import('./demo.ts')).demo),
  by(serveCommand, async () => (await import('./serve.ts')).runServe),
  by(controllerCommand, async () => (await import('./controller.ts')).runController),
  by(drainCommand, async () => (await import('./drain.ts')).drain),
  by(envoyConfigCommand, async () => (await import('./envoy-config.ts')).envoyConfig),
  by(loginCommand, async () => (await import('./login.ts')).login),
  by(logoutCommand, async () => (await import('./login.ts')).logout),
  by(newKeyCommand, async () => (await import('./key.ts')).newKey),
  by(listKeysCommand, async () => (await import('./list-keys.ts')).listKeys),
  by(showKeyCommand, async () => (await import('./key.ts')).readKey),
  by(editKeyCommand, async () => (await import('./key.ts')).editKey),
  by(rotateKeyCommand, async () => (await import('./key.ts')).rotateKey),
  by(revokeKeysCommand, async () => (await import('./revoke-keys.ts')).revokeKeys),
  by(explainCommand, async () => (await import('./explain.ts')).explain),
  by(limitsCommand, async () => (await import('./show-limits.ts')).showLimits),
  by(resetLimitsCommand, async () => (await import('./counters.ts')).resetLimits),
  by(listIncreasesCommand, async () => (await import('./increases.ts')).showIncreases),
  by(grantIncreaseCommand, async () => (await import('./increases.ts')).grantIncrease),
  by(endIncreaseCommand, async () => (await import('./increases.ts')).endIncrease),
  by(listRequestsCommand, async () => (await import('./limit-requests.ts')).showRequests),
  by(newRequestCommand, async () => (await import('./limit-requests.ts')).newRequest),
  by(approveRequestCommand, async () => (await import('./limit-requests.ts')).approveRequest),
  by(denyRequestCommand, async () => (await import('./limit-requests.ts')).denyRequest),
  by(usageCommand, async () => (await import('./show-usage.ts')).showUsage),
  by(verifyUsageCommand, async () => (await import('./verify-usage.ts')).runVerifyUsage),
  by(forgetUsageCommand, async () => (await import('./forget-usage.ts')).forgetUsage),
  by(checkCommand, async () => (await import('./check.ts')).check),
  by(simulateCommand, async () => (await import('./simulate.ts')).simulate),
  by(doctorCommand, async () => (await import('./doctor.ts')).doctor),
  by(migrateCommand, async () => (await import('./migrate.ts')).migrate),
  by(exportResourcesCommand, async () => (await import('./export.ts')).runExport),
  by(importPricesCommand, async () => (await import('./import-prices.ts')).importPrices),
  by(cleanupCommand, async () => (await import('./cleanup.ts')).cleanup),
  by(revocationsCommand, async () => (await import('./revocations.ts')).showReplicas),
  by(forgetReplicaCommand, async () => (await import('./revocations.ts')).forgetReplica),
  by(replayCommand, async () => (await import('./replay-revocations.ts')).replay),
  by(completionCommand, async () => (await import('./completion.ts')).completionOf(commands.all)),
]

export const commands: Commands = {
  all: rows.map(([command]) => command),
  /** Supported until the release after the one that renamed them. */
  renamed: {
    counter: 'limits',
    'counter show': 'limits',
    'counter reset': 'limits reset',
    replicas: 'revocations',
    'replicas forget': 'revocations forget',
  },
}

/** By command name. */
export const runners: ReadonlyMap<string, Run> = new Map(rows.map(([{ name }, run]) => [name, run]))

function by<Given extends Flags>(
  command: Command<Given>,
  load: () => Promise<Run<Given>>,
): [Command, Run] {
  const run: Run<Given> = async (call, io) => await (await load())(call, io)
  return [command, run as unknown as Run]
}
