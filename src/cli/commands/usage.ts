/** Commands on usage, limits, and the reasons of refusals. */

import { usageDimensions, usageUnits } from '../../usage/store.ts'
import { command } from '../command.ts'
import { timeForms } from '../time-flag.ts'
import { gatewayFlags, jsonFlag, selectorFlags, yesFlag } from './flags.ts'

const span = {
  from: {
    takes: '<time>',
    means: timeForms.ago,
  },
  to: { takes: '<time>', means: 'the end, in the same form' },
} as const

export const explainFlags = {
  key: {
    takes: '<id>',
    means:
      'ask as the key with this id; without it as yourself, which with an identity token means your newest key',
    field: 'keyId',
  },
  user: {
    takes: '<name>',
    means: 'ask as this user, using the newest key or a hypothetical new one (administrators only)',
  },
  group: {
    takes: '<name>',
    means: 'a group of the user; needs --user',
    many: true,
    field: 'groups',
  },
  address: {
    takes: '<address>',
    means: 'ask from this client address; without it, allowed addresses of a key are not checked',
  },
  path: { takes: '<path>', means: 'the path at the gateway; /v1/chat/completions by default' },
  method: { takes: '<method>', means: 'the HTTP method; POST by default' },
  subscription: {
    takes: '<name>',
    means: 'ask with a key of this subscription, if the credential is an identity token',
  },
  at: {
    takes: '<time>',
    means: `ask for this time, at most a year ahead, assuming no further use until then: ${timeForms.ahead}`,
  },
  request: {
    takes: '<x-request-id>',
    means:
      'explain this request, refused within the last hour: show its refusal then, and the decision now',
    field: 'requestId',
  },
  ...gatewayFlags,
} as const

export const explainCommand = command({
  name: 'explain',
  summary: 'Explain whether a request would be allowed',
  about:
    'Evaluates the decision of the gateway step by step, without counting the request. <model> is <namespace>/<name>, or a name as in a request’s body; ' +
    'it may be omitted with --path or --request.',
  operands: [{ name: 'model', optional: true }],
  flags: explainFlags,
  exit: '0 the request would be allowed, 1 it would be refused.',
})

export const usageFlags = {
  ...span,
  by: {
    takes: '<groups>',
    means:
      'group by one of hour, day and month, and any of subscription, model, user, key, organization, cost_center and ' +
      'label:<name>, separated by commas; by default day',
    suggests: [...usageUnits, ...usageDimensions],
    field: 'group_by',
  },
  ...selectorFlags,
  user: { takes: '<name>', means: 'only for this user' },
  key: { takes: '<id>', means: 'only for this key' },
  organization: { takes: '<name>', means: 'only for this organization' },
  'cost-center': { takes: '<name>', means: 'only for this cost center', field: 'cost_center' },
  label: { takes: '<name>=<value>', means: 'only for keys that currently have this label' },
  csv: { means: 'print CSV' },
  focus: {
    means: 'print FOCUS 1.2 as CSV (administrators only)',
    field: 'format=focus',
  },
  ...gatewayFlags,
} as const

export const usageCommand = command({
  name: 'usage',
  summary: 'Show how many tokens were used',
  about:
    'Shows your usage; with an API key, only the usage of that key; for administrators, the usage of all users. The default period is from the beginning of this month until now. Costs use the ' +
    'prices of the subscriptions, in BILLING_CURRENCY.',
  flags: usageFlags,
})

export const verifyUsageFlags = { ...span, ...jsonFlag } as const

export const verifyUsageCommand = command({
  name: 'usage verify',
  summary: 'Compare the usage ledger with the journal and its archives',
  about:
    'Recomputes the sums of usage from the remaining files of USAGE_JOURNAL and the archives in USAGE_ARCHIVE_DIR, ' +
    'and reports differences from the ledger in DATABASE_URL: by hour, user, key and model. Reports archives that were ' +
    'changed, are missing or out of order. By default it compares all remaining lines, in whole hours. Run it with the settings of ' +
    'the service, including UNUSABLE_USAGE; for tollgate up it finds database and journal by DATA_DIR.',
  flags: verifyUsageFlags,
  exit: '0 the ledger agrees, 1 something differs.',
})

export const forgetUsageFlags = { ...yesFlag, ...jsonFlag } as const

export const forgetUsageCommand = command({
  name: 'usage forget',
  summary: "Remove a user's name from the usage ledger",
  about:
    'Replaces the name in the usage ledger of DATABASE_URL (for tollgate up: of DATA_DIR) with a random one; the sums remain. This cannot be undone. Files ' +
    "of the journal, logs, and the user's API keys still contain the name: revoke the keys first.",
  operands: [{ name: 'user' }],
  flags: forgetUsageFlags,
})

const ofLimit = {
  limit: {
    takes: '<name>',
    means:
      'only limits with this name. Without --user and --key: the shared limit of --model, else of --subscription, else of the installation, else of every resource that has one',
    field: 'name',
  },
  whom: {
    takes: '<name>',
    means:
      'only the counter of this group (users: the users that the Subscription lists by name), organization or subscription',
  },
  window: { takes: '<window>', means: 'only limits with this window, such as 1h or month' },
  ...selectorFlags,
} as const

export const limitsFlags = {
  user: { takes: '<name>', means: 'the limits of this user (administrators only)' },
  key: { takes: '<id>', means: "this key's own limits (administrators only)", field: 'key_id' },
  all: { means: 'all shared limits (administrators only)' },
  ...ofLimit,
  ...gatewayFlags,
} as const

export const limitsCommand = command({
  name: 'limits',
  summary: 'Show what is left of your limits',
  about:
    'With an API key, shows the limits of its subscription. The call is not counted. With --user, --key or --limit, shows administrators ' +
    "the nonzero counters of a user, of a key's own limits, or of a shared limit.",
  flags: limitsFlags,
})

export const resetLimitsFlags = {
  user: { takes: '<name>', means: 'the counters of this user' },
  key: { takes: '<id>', means: "the counters of this key's own limits", field: 'key_id' },
  ...ofLimit,
  ...yesFlag,
  ...gatewayFlags,
} as const

export const resetLimitsCommand = command({
  name: 'limits reset',
  summary:
    'Reset counters of a user, a key or a shared limit, so that requests are allowed again at once',
  about:
    'For administrators. Responses that ended before the reset are not added again. The ledger does not change, and requests ' +
    'in progress are not interrupted.',
  flags: resetLimitsFlags,
})
