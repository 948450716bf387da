import { test } from 'tap'
import { envoyConfigCommand } from '../../src/cli/commands/run.ts'
import { settings } from '../../src/settings/all-settings.ts'

test('the help of envoy-config names every setting that Envoy uses', async (t) => {
  const used = Object.values(settings).filter(({ meaning }) => /used by Envoy/.test(meaning))
  t.ok(used.length > 6)
  for (const { name } of used) t.match(envoyConfigCommand.about, name)
})
