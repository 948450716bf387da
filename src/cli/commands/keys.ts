/** Commands on API keys. */

import { command } from '../command.ts'
import { gatewayFlags, yesFlag } from './flags.ts'

/** Fields of a key. */
const fields = {
  description: { takes: '<text>', mayBeEmpty: true, means: 'what the key is for' },
  label: {
    takes: '<name>=<value>',
    means: 'a label, by which lists of keys can be filtered',
    many: true,
    field: 'labels',
  },
  model: {
    takes: '<namespace>/<name>',
    means: 'a model that the key may call; by default all models of its subscription',
    many: true,
    field: 'models',
  },
  'token-limit': {
    takes: '<tokens>/<window>',
    means: 'tokens of this key in a window, such as 1000/1m',
    many: true,
    field: 'tokenRateLimits',
  },
  limit: {
    takes: 'name=<name>,limit=<amount>,…',
    means:
      'a named limit of this key, such as name=daily,of=cost,limit=5,window=day; optional: enforce=false, and model=<namespace>/<name>, ' +
      'once or more',
    many: true,
    field: 'limits',
  },
  address: {
    takes: '<network>',
    means: 'a network that the key may be used from, such as 192.0.2.0/24',
    many: true,
    field: 'allowedAddresses',
  },
} as const

export const newKeyFlags = {
  subscription: {
    takes: '<name>',
    means: 'the subscription that pays; by default your subscription with the highest priority',
  },
  expires: {
    takes: '<duration>',
    means: 'lifetime of the key, such as 30d or 12h; by default the maximum',
    field: 'expiresIn',
  },
  ephemeral: {
    means: 'make the key ephemeral: it expires within an hour, is then deleted, and needs no name',
  },
  ...fields,
  ...gatewayFlags,
} as const

export const newKeyCommand = command({
  name: 'key new',
  summary: 'Create a key',
  about: 'Prints only the key to standard output: KEY=$(tollgate key new laptop)',
  operands: [{ name: 'name', optional: true }],
  flags: newKeyFlags,
})

export const listKeysFlags = {
  all: { means: 'include revoked, expired and ephemeral keys' },
  status: {
    takes: '<status>',
    means: 'list only keys with this status, or with any of several, separated by commas',
    many: true,
    choices: ['active', 'revoked', 'expired'],
    field: 'filters.status',
  },
  label: {
    takes: '<name>=<value>',
    means: 'list only keys with this label',
    many: true,
    field: 'filters.labelsContain',
  },
  prefix: {
    takes: '<beginning>',
    means: 'list only keys with this prefix, such as sk-tg-4fTr0b',
    field: 'filters.keyPrefix',
  },
  user: {
    takes: '<name>',
    means: 'list the keys of this user (administrators only)',
    field: 'filters.username',
  },
  sort: {
    takes: '<field>',
    means: 'sort by created_at, expires_at, last_used_at or name, with :asc or :desc',
  },
  limit: { takes: '<number>', means: 'list at most this many keys' },
  ...gatewayFlags,
} as const

export const listKeysCommand = command({
  name: 'key list',
  summary: 'List your active keys',
  flags: listKeysFlags,
})

export const showKeyCommand = command({
  name: 'key show',
  summary: 'Show a key with its labels and caps',
  operands: [{ name: 'id' }],
  flags: gatewayFlags,
})

export const editKeyFlags = {
  name: { takes: '<name>', means: 'the new name' },
  ...fields,
  'no-labels': { means: 'remove its labels' },
  'no-models': { means: 'let it call all models of its subscription' },
  'no-token-limits': { means: 'remove its own limits on tokens' },
  'no-limits': { means: 'remove its limits by name' },
  'no-addresses': { means: 'allow it from all addresses' },
  ...gatewayFlags,
} as const

export const editKeyCommand = command({
  name: 'key edit',
  summary: 'Change a key',
  about:
    'Each given field replaces the old value; the others do not change. Holders may only narrow caps; administrators may also widen and ' +
    'remove them.',
  operands: [{ name: 'id' }],
  flags: editKeyFlags,
})

export const rotateKeyFlags = {
  overlap: {
    takes: '<duration>',
    means: 'how long the current secret stays valid, such as 24h; at most 7d',
  },
  'end-old-after-first-use': {
    takes: '<duration>',
    means: 'how long the current secret stays valid after the first use of the new one, such as 1h',
    field: 'endOldAfterFirstUse',
  },
  ...gatewayFlags,
} as const

export const rotateKeyCommand = command({
  name: 'key rotate',
  summary: 'Give a key a new secret',
  about:
    'Prints only the key to standard output. The current secret ends at once, unless --overlap or ' +
    '--end-old-after-first-use keeps it valid for a time.',
  operands: [{ name: 'id' }],
  flags: rotateKeyFlags,
})

export const revokeKeysFlags = {
  all: { means: 'revoke all your keys, after confirmation at a terminal' },
  user: {
    takes: '<name>',
    means: 'revoke all keys of this user, after confirmation',
    field: 'username',
  },
  ...yesFlag,
  ...gatewayFlags,
} as const

export const revokeKeysCommand = command({
  name: 'key revoke',
  summary: 'Revoke keys permanently',
  about:
    'Takes key ids. With -, it revokes the key that it reads from standard input, regardless of its owner.',
  operands: [{ name: 'id', optional: true, many: true }],
  flags: revokeKeysFlags,
  exit: '0 all were revoked, 1 at least one was not.',
})
