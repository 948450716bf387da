import { test } from 'tap'
import { pathRules } from '../../src/operations/operations.ts'
import { describePaths } from '../../src/settings/describe-paths.ts'

test('the description lists which paths are counted', async (t) => {
  t.equal(
    describePaths(pathRules()),
    'counted: /v1/chat/completions; open and not counted: /v1/messages, /v1/responses, ' +
      '/v1/completions, /v1/embeddings, the rest ' +
      '(403 path_closed where an enforced limit on cost holds)',
  )
  t.match(describePaths(pathRules(['messages'], 'closed')), /^counted: \/v1\/messages; closed, /)
})
