/** All commands and their old names. The code of a command is loaded only when it runs. */

import type { Command, Flags, Run } from './command.ts'
import * as increases from './commands/increases.ts'
import * as keys from './commands/keys.ts'
import * as operate from './commands/operate.ts'
import * as run from './commands/run.ts'
import * as shell from './commands/shell.ts'
import * as usage from './commands/usage.ts'
import type { Commands } from './parse-command.ts'

/** In the order in which help lists them. */
const rows: readonly (readonly [Command, Run])[] = [
  by(run.upCommand, async () => (await import('./up.ts')).up),
  by(run.demoCommand, async () => (await import('./demo.ts')).demo),
  by(run.serveCommand, async () => (await import('./serve.ts')).runServe),
  by(run.controllerCommand, async () => (await import('./controller.ts')).runController),
  by(run.drainCommand, async () => (await import('./drain.ts')).drain),
  by(run.envoyConfigCommand, async () => (await import('./envoy-config.ts')).envoyConfig),
  by(shell.loginCommand, async () => (await import('./login.ts')).login),
  by(shell.logoutCommand, async () => (await import('./login.ts')).logout),
  by(keys.newKeyCommand, async () => (await import('./key.ts')).newKey),
  by(keys.listKeysCommand, async () => (await import('./list-keys.ts')).listKeys),
  by(keys.showKeyCommand, async () => (await import('./key.ts')).readKey),
  by(keys.editKeyCommand, async () => (await import('./key.ts')).editKey),
  by(keys.rotateKeyCommand, async () => (await import('./key.ts')).rotateKey),
  by(keys.revokeKeysCommand, async () => (await import('./revoke-keys.ts')).revokeKeys),
  by(usage.explainCommand, async () => (await import('./explain.ts')).explain),
  by(usage.limitsCommand, async () => (await import('./show-limits.ts')).showLimits),
  by(usage.resetLimitsCommand, async () => (await import('./counters.ts')).resetLimits),
  by(increases.listIncreasesCommand, async () => (await import('./increases.ts')).showIncreases),
  by(increases.grantIncreaseCommand, async () => (await import('./increases.ts')).grantIncrease),
  by(increases.endIncreaseCommand, async () => (await import('./increases.ts')).endIncrease),
  by(increases.listRequestsCommand, async () => (await import('./limit-requests.ts')).showRequests),
  by(increases.newRequestCommand, async () => (await import('./limit-requests.ts')).newRequest),
  by(
    increases.approveRequestCommand,
    async () => (await import('./limit-requests.ts')).approveRequest,
  ),
  by(increases.denyRequestCommand, async () => (await import('./limit-requests.ts')).denyRequest),
  by(usage.usageCommand, async () => (await import('./show-usage.ts')).showUsage),
  by(usage.verifyUsageCommand, async () => (await import('./verify-usage.ts')).runVerifyUsage),
  by(usage.forgetUsageCommand, async () => (await import('./forget-usage.ts')).forgetUsage),
  by(operate.checkCommand, async () => (await import('./check.ts')).check),
  by(operate.simulateCommand, async () => (await import('./simulate.ts')).simulate),
  by(operate.doctorCommand, async () => (await import('./doctor.ts')).doctor),
  by(operate.migrateCommand, async () => (await import('./migrate.ts')).migrate),
  by(operate.exportResourcesCommand, async () => (await import('./export.ts')).runExport),
  by(operate.importPricesCommand, async () => (await import('./import-prices.ts')).importPrices),
  by(operate.cleanupCommand, async () => (await import('./cleanup.ts')).cleanup),
  by(operate.revocationsCommand, async () => (await import('./revocations.ts')).showReplicas),
  by(operate.forgetReplicaCommand, async () => (await import('./revocations.ts')).forgetReplica),
  by(
    operate.replayCommand,
    async () => (await import('./replay-revocations.ts')).replayRevocations,
  ),
  by(shell.completionCommand, async () =>
    (await import('./completion.ts')).completionOf(commands.all),
  ),
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
  const late: Run<Given> = async (call, io) => await (await load())(call, io)
  return [command, late as unknown as Run]
}
