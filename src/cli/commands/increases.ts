/** Commands on more of a limit for a while: what is given, and what is asked for. */

import { command } from '../command.ts'
import { connection, json } from './shared.ts'

const common = { ...connection, ...json } as const

const given = {
  to: {
    takes: '<figure>',
    means: 'the higher figure; of cost an amount, like 60 or 60.50',
    field: 'limit',
  },
  until: {
    takes: '<time>',
    means: 'when it ends: a day (2026-03-01), a time (RFC 3339), or from now on like 12h or 3d',
  },
} as const

export const listIncreasesFlags = common

export const listIncreases = command({
  name: 'increases',
  summary: 'List the increases of limits that are in force',
  about: 'For administrators.',
  flags: listIncreasesFlags,
})

export const grantIncreaseFlags = {
  limit: {
    takes: '<name>',
    means:
      'the limit with this name: of --key, of --model, of --subscription, or without these of the installation',
    field: 'name',
  },
  ...given,
  reason: { takes: '<text>', means: 'why, for the trail and the list' },
  subscription: { takes: '<name>', means: 'the limit of this subscription' },
  model: { takes: '<namespace>/<name>', means: 'the limit of this model' },
  key: { takes: '<id>', means: "this key's own limit", field: 'keyId' },
  user: { takes: '<name>', means: 'for this user, if the limit is per user' },
  whom: {
    takes: '<name>',
    means:
      'for this group (users: those by name), organization or subscription, if several share the limit apart',
  },
  ...common,
} as const

export const grantIncrease = command({
  name: 'increases grant',
  summary: 'Increase a limit by name for a while',
  about:
    'For administrators, but not for oneself. The higher of the limit and its increases holds; what is used stays used, and no ' +
    'model is opened. It ends by itself, after 92 days at most.',
  flags: grantIncreaseFlags,
})

export const endIncreaseFlags = common

export const endIncrease = command({
  name: 'increases end',
  summary: 'End an increase of a limit early',
  about: 'For administrators.',
  operands: [{ name: 'id' }],
  flags: endIncreaseFlags,
})

export const listRequestsFlags = {
  all: { means: 'the open ones of everybody, for administrators', field: 'all' },
  ...common,
} as const

export const listRequests = command({
  name: 'limit-requests',
  summary: 'List requests for more of a limit for a while',
  about: 'Yours: the open ones, and those that were decided in the last 30 days.',
  flags: listRequestsFlags,
})

const { user: _, key: __, ...asked } = grantIncreaseFlags

export const newRequestFlags = {
  ...asked,
  limit: {
    takes: '<name>',
    means:
      'the limit with this name: of --model, of --subscription, or without these of the installation',
    field: 'name',
  },
  reason: { takes: '<text>', means: 'why, for whoever decides' },
  whom: {
    takes: '<name>',
    means:
      'for this group (users: those by name), organization or subscription, if you draw on several counters of the limit',
  },
} as const

export const newRequest = command({
  name: 'limit-requests new',
  summary: 'Ask for more of one of your limits for a while',
  about:
    'With an identity token, of a limit by name that tollgate limits shows you. An administrator approves or denies it, and tollgate ' +
    'limit-requests says which. At most five are open at a time.',
  flags: newRequestFlags,
})

export const approveRequestFlags = { ...given, ...common } as const

export const approveRequest = command({
  name: 'limit-requests approve',
  summary: 'Approve a request for more of a limit',
  about:
    'For administrators, but not for oneself. With --to and --until for less than was asked for.',
  operands: [{ name: 'id' }],
  flags: approveRequestFlags,
})

export const denyRequestFlags = {
  reason: { takes: '<text>', means: 'why, for whoever has asked' },
  ...common,
} as const

export const denyRequest = command({
  name: 'limit-requests deny',
  summary: 'Deny a request for more of a limit',
  about: 'For administrators, but not for oneself.',
  operands: [{ name: 'id' }],
  flags: denyRequestFlags,
})
