/** `GET /v1/me`: the caller's identity. */

import type { ExternalDeps } from './deps.ts'
import type { Api } from './http/api.ts'
import { callerOf } from './http/authenticate-api.ts'
import { boolean, optional, responses, string, strings } from './http/schema.ts'

const schema = {
  operationId: 'getMe',
  summary: 'Read who you are',
  description: 'The caller, as identified by the credential.',
  tags: ['Service'],
  response: responses('The caller.', [], 'Me', {
    username: { type: 'string', examples: ['alice'] },
    groups: strings('With a key, those of its creation.', { examples: [['team-a']] }),
    credential: string('Only an identity token may create keys.', {
      enum: ['identity-token', 'api-key'],
    }),
    administrator: boolean('Whether you have administrator rights; always false with a key.'),
    subscription: optional(string("The key's subscription.")),
    ledger: boolean('Whether there is usage to read, which needs USAGE_JOURNAL.'),
  }),
} as const

/** Adds the route. */
export function getMe(app: Api, { isAdmin, usage }: ExternalDeps): void {
  app.get('/v1/me', { schema }, async (request) => {
    const caller = callerOf(request)
    return {
      username: caller.user,
      groups: caller.groups,
      credential: caller.by === 'key' ? 'api-key' : 'identity-token',
      administrator: await isAdmin(caller),
      ...(caller.by === 'key' && { subscription: caller.subscription }),
      ledger: usage !== undefined,
    }
  })
}
