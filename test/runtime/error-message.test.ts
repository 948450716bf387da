import { test } from 'tap'
import { errorMessage } from '../../src/runtime/error-message.ts'

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
