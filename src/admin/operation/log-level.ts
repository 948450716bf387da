/** `GET` and `PUT /internal/v1/log-level`: the log level of a running process. */

import type { OperatorDeps } from '../deps.ts'
import type { Api } from '../http/api.ts'
import { addToOutcome } from '../http/audit.ts'
import { refusals, untitledObject } from '../http/schema.ts'

const logLevels = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const

const body = untitledObject({ level: { type: 'string', enum: logLevels } })

const schema = {
  operationId: 'setLogLevel',
  summary: 'Change the level of the log until the process ends',
  tags: ['Internal'],
  body,
  response: { 200: { description: 'The level in force.', ...body }, ...refusals(400, 413, 500) },
} as const

export function logLevelRoutes(app: Api, { log }: OperatorDeps): void {
  app.get('/internal/v1/log-level', () => ({ level: log.level }))
  const options = { schema, config: { audit: 'log.level' } } as const
  app.put('/internal/v1/log-level', options, async (request) => {
    const { level } = request.body
    addToOutcome(request, { level })
    request.log.info({ code: 'log_level_changed', level }, 'log level changed')
    log.level = level
    return { level }
  })
}
