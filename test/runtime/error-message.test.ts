import { test } from 'tap'
import { ServiceError } from '../../src/formats/errors.ts'
import { causeMessage, errorMessage } from '../../src/runtime/error-message.ts'

test('the message of whatever was thrown', async (t) => {
  const perAddress = new AggregateError([new Error('refused at ::1'), new Error('at 127.0.0.1')])
  for (const [thrown, message] of [
    [new TypeError('not a function'), 'not a function'],
    ['a string', 'a string'],
    [undefined, 'undefined'],
    [perAddress, 'refused at ::1, at 127.0.0.1'],
    [new AggregateError([new Error('one')], 'none is left'), 'none is left'],
  ] as const) {
    t.equal(errorMessage(thrown), message)
  }
})

test('the log has the cause of a refusal, not its words for callers', async (t) => {
  const cause = new Error('connect ECONNREFUSED 127.0.0.1:5432')
  t.equal(causeMessage(new ServiceError('store_unavailable', { cause })), cause.message)
  t.match(causeMessage(new ServiceError('store_unavailable')), 'The key store is unavailable')
  t.equal(causeMessage(cause), cause.message)
  const options = "Stream isn't writeable and enableOfflineQueue options is false"
  const ofCluster = "Cluster isn't ready and enableOfflineQueue options is false"
  const inFlight = 'Reached the max retries per request limit (which is 0).'
  for (const text of [options, ofCluster, inFlight, 'Connection is closed.'])
    t.equal(causeMessage(new Error(text)), 'the connection was closed')
})
