/** Commands for operators of a gateway: its resources, its database, its problems. */

import { command } from '../command.ts'
import { timeForms } from '../time-flag.ts'
import { connectionFlags, jsonFlag, yesFlag } from './flags.ts'

export const checkFlags = {
  'in-force': {
    takes: '<folder>',
    at: 'folder',
    means:
      'the folder that is in force now: report limits that would be removed or start with new counters',
  },
  ...jsonFlag,
} as const

export const checkCommand = command({
  name: 'check',
  summary: 'Validate a folder of resources and print every problem',
  about:
    'Prints every problem of the YAML files with its file and line, then the phase of each resource, why a ' +
    'model would be Pending, and whether the resources of each model would be accepted. The settings of the ' +
    'environment determine the allowed addresses of models and how requests are admitted. For limits by name it prints by how much requests in progress can exceed them and, ' +
    'with --in-force, which of them would be removed or start with new counters.',
  operands: [{ name: 'folder', at: 'folder' }],
  flags: checkFlags,
  exit: '0 there is no problem, 1 there is one. Advice is not a problem.',
})

export const doctorFlags = {
  'since-start': {
    means: 'report all events since the process started, not only those of the last five seconds',
  },
  ...jsonFlag,
} as const

export const doctorCommand = command({
  name: 'doctor',
  summary: 'Report current problems, the worst first, with their sections of the runbook',
  about:
    'Examines the process of the service on this machine or in this pod. Run it with the settings of the process: it queries ' +
    'INTERNAL_ADDRESS (which names the address of the metrics if METRICS_ADDRESS is not set), ENVOY_ADMIN_ADDRESS and the ' +
    'database, and reads the certificates. For tollgate up it finds these by DATA_DIR. It watches refusals, failures and losses for five seconds. If the ' +
    'process is down, it reports the problems of the folder in RESOURCES.',
  flags: doctorFlags,
  exit: '0 no problems, 1 at least one.',
})

export const exportResourcesCommand = command({
  name: 'export',
  summary: "Convert models-as-a-service's resources to Tollgate's, from a cluster or files",
  about:
    'Converts resources of maas.opendatahub.io and inference.opendatahub.io to those of tollgate.dev and prints them as ' +
    'YAML, for kubectl apply or a folder. Reads them from files, or without arguments from the cluster of KUBECONFIG or ' +
    'of the pod; - is standard input. Fields without a counterpart are listed on standard error.',
  operands: [{ name: 'file', optional: true, many: true, at: 'file' }],
  flags: jsonFlag,
  exit: '0 everything is printed, 1 a resource was not converted.',
})

export const importPricesCommand = command({
  name: 'prices import',
  summary: "Print the prices of LiteLLM's or OpenRouter's list as billingRates, to review",
  about:
    "Reads LiteLLM's model_prices_and_context_window.json, or the response of OpenRouter's /api/v1/models, and prints the " +
    'prices of all its models, or only of those given as arguments, as YAML: the billingRate of each model, to copy into the entry of ' +
    'your ModelRef in modelRefs; - is standard input. Both lists are in ' +
    'USD per token: with another BILLING_CURRENCY it fails. Prices that a billingRate cannot express (negative, or by tier, audio, image, time or search) are ' +
    'listed beside the model and on standard error.',
  operands: [
    { name: 'file', at: 'file' },
    { name: 'model', optional: true, many: true },
  ],
  flags: jsonFlag,
  exit: '0 everything is printed, 1 a price is not imported.',
})

export const migrateFlags = {
  from: {
    takes: '<url>',
    means:
      'copy the keys of models-as-a-service (v3.4 or later) from its database, without writing to it; repeat it ' +
      'to copy later changes',
  },
  tenant: {
    takes: '<name>',
    mayBeEmpty: true,
    means: 'with --from: the tenant whose keys to copy, if the source has several',
  },
  'in-place': {
    means:
      'use the table of models-as-a-service in its own database, given by --from or DATABASE_URL',
  },
  'dry-run': { means: 'only print what would be done' },
  plan: {
    means: 'print what would be done to the schema, and which processes keep working with it',
  },
  ...jsonFlag,
} as const

export const migrateCommand = command({
  name: 'migrate',
  summary: 'Migrate the database schema; take over the keys of models-as-a-service',
  about:
    'Migrates the database of DATABASE_URL (for tollgate up: of DATA_DIR, also while it runs) to the schema of this version; the service does so at its start.',
  flags: migrateFlags,
  exit: '0 everything was done, 1 some keys were not copied.',
})

export const cleanupFlags = {
  wait: {
    takes: '<seconds>',
    means:
      'how long to retry while the service cannot be reached or responds with 503; 0 by default',
  },
  ca: {
    takes: '<file>',
    means: 'the certificate authorities (PEM) to trust instead of the default ones',
    at: 'file',
  },
  cert: {
    takes: '<file>',
    means: 'the client certificate (PEM), if the listener requires one (TLS_CLIENT_CA_FILE)',
    at: 'file',
  },
  key: { takes: '<file>', means: 'its private key (PEM)', at: 'file' },
  ...jsonFlag,
} as const

export const cleanupCommand = command({
  name: 'cleanup',
  summary: 'Delete expired ephemeral keys now, through a running service',
  about:
    'Deletes ephemeral keys that expired more than 30 minutes ago. Each process of the service does so every 15 minutes; use this command to run it ' +
    'from a cron job and see the result. <url> is the internal listener of any process, such as http://127.0.0.1:8081 or unix:/path; it defaults to ' +
    'INTERNAL_ADDRESS.',
  operands: [{ name: 'url', optional: true }],
  flags: cleanupFlags,
})

export const revocationsCommand = command({
  name: 'revocations',
  summary: 'List the processes that a revocation waits for',
  about: 'Reads the database of DATABASE_URL, or for tollgate up the database in DATA_DIR.',
  flags: jsonFlag,
})

export const forgetReplicaFlags = { ...yesFlag, ...jsonFlag } as const

export const forgetReplicaCommand = command({
  name: 'revocations forget',
  summary: 'Stop revocations from waiting for a process that has ended permanently',
  operands: [{ name: 'name' }],
  flags: forgetReplicaFlags,
})

export const replayCommand = command({
  name: 'revocations replay',
  summary: 'Repeat revocations that a restored database lacks',
  about:
    'After a restore from an older backup: revokes in the database of DATABASE_URL every key that is revoked in one of the files and active in the database. ' +
    'Each process writes such a file in ' +
    'REVOCATION_LOG_DIR (revocations-<process>.jsonl). A process replays all files in its folder by itself, at its ' +
    'start and whenever it detects that the database has lost revocations. The command may be repeated.',
  operands: [{ name: 'file', many: true, at: 'file' }],
  flags: jsonFlag,
  exit: '0 every line was replayed, 1 a line could not be read or a key could not be revoked.',
})

export const simulateFlags = {
  since: { takes: '<duration>', means: 'how far back, such as 7d or 36h; 7d by default' },
  from: {
    takes: '<time>',
    means: `${timeForms.ago}, in whole hours`,
  },
  to: { takes: '<time>', means: 'the end, in the same form' },
  ...connectionFlags,
  ...jsonFlag,
} as const

export const simulateCommand = command({
  name: 'simulate',
  summary: 'Replay past usage with other resources and report refusals',
  about:
    'Replays past usage with the resources in a folder of YAML files, as if all of them were in force. Reports which requests would have ' +
    'been refused, when, and which limits were never near. For administrators. It changes nothing.',
  operands: [{ name: 'folder', at: 'folder' }],
  flags: simulateFlags,
  exit: '0 nothing would have been refused, 1 something would.',
})
