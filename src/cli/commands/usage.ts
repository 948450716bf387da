/** Commands on what was used, what is left, and why a request is refused. */

import { usageDimensions, usageUnits } from '../../usage/store.ts'
import { command } from '../command.ts'
import { connection, json, ofModel, yes } from './shared.ts'

const common = { ...connection, ...json }

const span = {
  from: {
    takes: '<time>',
    means: 'a day (2026-03-01) or a time (RFC 3339), in UTC',
  },
  to: { takes: '<time>', means: 'the end, likewise' },
} as const

export const explainFlags = {
  key: {
    takes: '<id>',
    means:
      'as the key with this id; otherwise as yourself, with an identity token with your newest key',
    field: 'keyId',
  },
  user: {
    takes: '<name>',
    means: 'as this user, for administrators: with the newest key, or a new one',
  },
  group: {
    takes: '<name>',
    means: 'with --user: a group of the user',
    many: true,
    field: 'groups',
  },
  address: {
    takes: '<address>',
    means: 'from this address, for a key with allowed addresses, which are not checked without it',
  },
  path: { takes: '<path>', means: 'the path at the gateway, if it is not the one for chats' },
  method: { takes: '<method>', means: 'the HTTP method; POST by default' },
  subscription: {
    takes: '<name>',
    means: 'with an identity token: with a key of this subscription',
  },
  at: {
    takes: '<time>',
    means: 'at this time in RFC 3339, within a year, if nothing else is used until then',
  },
  request: {
    takes: '<x-request-id>',
    means:
      'a request that was refused within the last hour: what was answered, and what is true now',
    field: 'requestId',
  },
  ...common,
} as const

export const explain = command({
  name: 'explain',
  summary: 'Say whether a request would be allowed, and why',
  about:
    'Says how the gateway decides; nothing is counted. <model> is <namespace>/<name>, or a name as in a request’s body; ' +
    'it may be left out with --path or --request.',
  operands: [{ name: 'model', optional: true }],
  flags: explainFlags,
  exit: '0 the request would be allowed, 1 it would be refused.',
})

export const usageFlags = {
  ...span,
  by: {
    takes: '<groups>',
    means:
      'one of hour, day and month, and any of subscription, model, user, key, organization, cost_center and ' +
      'label:<name>, with commas; by default day',
    suggests: [...usageUnits, ...usageDimensions],
    field: 'group_by',
  },
  ...ofModel,
  user: { takes: '<name>', means: 'only of this user' },
  key: { takes: '<id>', means: 'only of this key' },
  organization: { takes: '<name>', means: 'only of this organization' },
  'cost-center': { takes: '<name>', means: 'only of this cost center', field: 'cost_center' },
  label: { takes: '<name>=<value>', means: 'only of keys that have this label now' },
  csv: { means: 'print CSV' },
  focus: {
    means: 'print FOCUS 1.2 as CSV, for administrators',
    field: 'format=focus',
  },
  ...common,
} as const

export const usage = command({
  name: 'usage',
  summary: 'Show how many tokens were used',
  about:
    'Of yourself; with a key of that key; for administrators of everybody. By default this month until now. Costs are by the ' +
    'prices of the subscriptions, in BILLING_CURRENCY.',
  flags: usageFlags,
})

export const verifyUsageFlags = { ...span, ...json } as const

export const verifyUsage = command({
  name: 'usage verify',
  summary: 'Compare the sums of usage with the journal and its archives',
  about:
    'Recomputes the sums of usage from the files of USAGE_JOURNAL that are kept and the archives in USAGE_ARCHIVE_DIR, ' +
    'and says where they differ from the ledger in DATABASE_URL: by hour, user, key and model. Names archives that were ' +
    'changed, are missing or in another order. By default of all that is kept, in whole hours. Give it the settings of ' +
    'the service, UNUSABLE_USAGE included; of tollgate up it finds database and journal by DATA_DIR.',
  flags: verifyUsageFlags,
  exit: '0 everything that is in the ledger agrees, 1 something does not.',
})

export const forgetUsageFlags = { ...yes, ...json } as const

export const forgetUsage = command({
  name: 'usage forget',
  summary: "Remove a user's name from the usage ledger",
  about:
    'Replaces the name in the usage ledger of DATABASE_URL, or beside tollgate up of DATA_DIR, with a random one; the sums stay. This cannot be undone. Files ' +
    "of the journal and of logs, and the user's API keys, keep the name: revoke the keys first.",
  operands: [{ name: 'user' }],
  flags: forgetUsageFlags,
})

const ofLimit = {
  limit: {
    takes: '<name>',
    means:
      'of limits with this name; without --user and --key one that several share: of --model, else of --subscription, else of the installation or whatever has one',
    field: 'name',
  },
  whom: {
    takes: '<name>',
    means: 'only what this group (users: those by name), organization or subscription shares',
  },
  window: { takes: '<window>', means: 'only this window, like 1h or month' },
  ...ofModel,
} as const

export const limitsFlags = {
  user: { takes: '<name>', means: 'of this user, for administrators' },
  key: { takes: '<id>', means: "of this key's own limits, for administrators", field: 'key_id' },
  all: { means: 'all that several share, for administrators' },
  ...ofLimit,
  ...common,
} as const

export const limits = command({
  name: 'limits',
  summary: 'Show what is left of your limits',
  about:
    'With a key, the limits of its subscription. The call is not counted. With --user, --key or --limit, for administrators: the ' +
    "limits of which something is used, of that user, of the key's own, or of those who share it.",
  flags: limitsFlags,
})

export const resetLimitsFlags = {
  user: { takes: '<name>', means: 'of this user' },
  key: { takes: '<id>', means: "of this key's own limits", field: 'key_id' },
  ...ofLimit,
  ...yes,
  ...common,
} as const

export const resetLimits = command({
  name: 'limits reset',
  summary:
    'Reset what a user, a key or those who share a limit have used, so that requests are allowed again at once',
  about:
    'For administrators. Responses that ended before are not added again. What was charged does not change, and requests ' +
    'in progress end by themselves.',
  flags: resetLimitsFlags,
})
