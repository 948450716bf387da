/** Commands on temporary increases of limits, and on requests for them. */

import { command } from '../command.ts'
import { timeForms } from '../time-flag.ts'
import { gatewayFlags } from './flags.ts'

const given = {
  to: {
    takes: '<figure>',
    means: 'the increased limit; for cost an amount such as 60 or 60.50',
    field: 'limit',
  },
  until: {
    takes: '<time>',
    means: `when it ends: ${timeForms.ahead}`,
  },
} as const

export const listIncreasesCommand = command({
  name: 'increases',
  summary: 'List temporary limit increases in force',
  about: 'For administrators.',
  flags: gatewayFlags,
})

export const grantIncreaseFlags = {
  limit: {
    takes: '<name>',
    means:
      'name of the limit: in --key, --model or --subscription, or without these in the installation',
    field: 'name',
  },
  ...given,
  reason: { takes: '<text>', mayBeEmpty: true, means: 'why, for the audit trail and the list' },
  subscription: { takes: '<name>', means: 'the limit of this subscription' },
  model: { takes: '<namespace>/<name>', means: 'the limit of this model' },
  key: { takes: '<id>', means: "this key's own limit", field: 'keyId' },
  user: { takes: '<name>', means: 'for this user, if the limit is per user' },
  whom: {
    takes: '<name>',
    means:
      'whose counter to increase, if the limit has several: a group (users: the users that the Subscription lists by name), an organization or a subscription',
  },
  ...gatewayFlags,
} as const

export const grantIncreaseCommand = command({
  name: 'increases grant',
  summary: 'Increase a limit by name temporarily',
  about:
    'For administrators, but not for their own limits. The highest of the limit and its increases applies. Counters and access to ' +
    'models do not change. An increase ends at --until, after 92 days at most.',
  flags: grantIncreaseFlags,
})

export const endIncreaseCommand = command({
  name: 'increases end',
  summary: 'End a limit increase early',
  about: 'For administrators.',
  operands: [{ name: 'id' }],
  flags: gatewayFlags,
})

export const listRequestsFlags = {
  all: { means: 'list the open requests of all users (administrators only)', field: 'all' },
  ...gatewayFlags,
} as const

export const listRequestsCommand = command({
  name: 'limit-requests',
  summary: 'List requests for temporary limit increases',
  about: 'By default it lists your own: open ones, and requests decided in the last 30 days.',
  flags: listRequestsFlags,
})

const { user: _, key: __, ...asked } = grantIncreaseFlags

export const newRequestFlags = {
  ...asked,
  limit: {
    takes: '<name>',
    means: 'name of the limit: in --model or --subscription, or without these in the installation',
    field: 'name',
  },
  reason: { takes: '<text>', mayBeEmpty: true, means: 'why, for the administrator' },
  whom: {
    takes: '<name>',
    means:
      'whose counter to increase, if you use several counters of the limit: a group (users: the users that the Subscription lists by name), an organization or a subscription',
  },
} as const

export const newRequestCommand = command({
  name: 'limit-requests new',
  summary: 'Request a temporary limit increase',
  about:
    'Requests a temporary increase of a named limit that tollgate limits lists. Needs an identity token. An administrator approves or denies the request; ' +
    'tollgate limit-requests shows the decision. You may have at most five open requests.',
  flags: newRequestFlags,
})

export const approveRequestFlags = { ...given, ...gatewayFlags } as const

export const approveRequestCommand = command({
  name: 'limit-requests approve',
  summary: 'Approve a request for a limit increase',
  about:
    'For administrators, but not for their own requests. With --to or --until it grants less than requested.',
  operands: [{ name: 'id' }],
  flags: approveRequestFlags,
})

export const denyRequestFlags = {
  reason: { takes: '<text>', mayBeEmpty: true, means: 'why, for the user' },
  ...gatewayFlags,
} as const

export const denyRequestCommand = command({
  name: 'limit-requests deny',
  summary: 'Deny a request for a limit increase',
  about: 'For administrators, but not for their own requests.',
  operands: [{ name: 'id' }],
  flags: denyRequestFlags,
})
