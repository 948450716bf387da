/** Flags of several commands. */

/** Which gateway, and how. */
export const connectionFlags = {
  url: { takes: '<url>', means: 'the address of the gateway' },
  'insecure-http': { means: 'send the credential over plain http to another machine' },
} as const

/** Output for programs. */
export const jsonFlag = { json: { means: 'print JSON' } } as const

/** For commands that call a gateway and print what it answers. */
export const gatewayFlags = { ...connectionFlags, ...jsonFlag } as const

/** For commands that ask for confirmation. */
export const yesFlag = { yes: { means: 'do not ask for confirmation' } } as const

/** Selects usage and limits. */
export const selectorFlags = {
  subscription: { takes: '<name>', means: 'only for this subscription' },
  model: { takes: '<namespace>/<name>', means: 'only for this model' },
} as const
