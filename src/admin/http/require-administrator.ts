/** onRequest: only administrators pass. */

import type { FastifyInstance } from 'fastify'
import { ServiceError } from '../../formats/errors.ts'
import type { ExternalDeps } from '../deps.ts'
import { noteForeignRead } from './audit.ts'
import { callerOf } from './authenticate-api.ts'

/** For a scope behind `requireCaller`: all others get 403 before anything is read. */
export function requireAdministrator(app: FastifyInstance, { isAdmin }: ExternalDeps): void {
  app.addHook('onRequest', async (request) => {
    const caller = callerOf(request)
    if (await isAdmin(caller)) return
    noteForeignRead(request, {})
    const message =
      caller.by === 'key'
        ? 'Only an administrator with an identity token may do this; an API key never has administrator rights.'
        : 'Only an administrator may do this.'
    throw new ServiceError('admin_required', { message })
  })
}
