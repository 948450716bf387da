import { execFileSync, spawnSync } from 'node:child_process'
import { symlinkSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { packageRoot } from '../../src/runtime/package-root.ts'
import { everyProcessIsAsked } from '../support/envoy.ts'
import { envoyPath } from '../support/envoy-binary.ts'
import { startRevoking } from '../support/revoking.ts'
import { startLoad, tally } from '../support/steady-load.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

/**
 * The version to upgrade from if there is no tag: the last commit with the schema of migration 0004.
 */
const firstCommit = 'b8016c8ba862d45977f72a185c4fe88d26c81749'

function git(...args: string[]): string | undefined {
  const { status, stdout } = spawnSync('git', ['-C', packageRoot, ...args], { encoding: 'utf8' })
  return status === 0 ? stdout.trim() : undefined
}

/** The last release, otherwise that commit; undefined if the clone does not contain it. */
const before =
  git('describe', '--tags', '--abbrev=0', 'HEAD^') ??
  git('rev-parse', '--verify', '--quiet', `${firstCommit}^{commit}`)
const skip =
  (envoyPath() === undefined && 'no Envoy') || (before === undefined && 'no older commit here')

t.test('an upgrade from the previous version, and a downgrade', { skip }, async (t) => {
  const old = temporaryFolder(t)
  const archive = execFileSync('git', ['-C', packageRoot, 'archive', before ?? ''], {
    maxBuffer: 2 ** 28,
  })
  execFileSync('tar', ['-x', '-C', old], { input: archive })
  symlinkSync(join(packageRoot, 'node_modules'), join(old, 'node_modules'))

  const pair = await startRevoking(t, { count: 2, root: old })
  const { key } = await pair.mint()
  const load = startLoad(50, () => pair.chat(key), 16)
  const replace = async (root?: string) => {
    for (const [replica, running] of pair.all.entries()) {
      await running.end('SIGTERM')
      await running.start(root)
      await everyProcessIsAsked(pair.envoy)
      // One process of each version is running after the first replacement, and each must know what
      // the other did.
      const made = await pair.mint()
      await pair.use(made.key)
      await pair.revoke(made.id, replica)
      t.strictSame(await pair.statuses(made.key), [401, 401], 'the revocation is known to both')
    }
  }
  await t.test('upgrade', () => replace())
  await t.test('downgrade', () => replace(old))
  const counts = tally(await load.stop())
  const { 200: served = 0, 503: late = 0, ...others } = counts
  t.comment(`answers: ${JSON.stringify(counts)}`)
  t.strictSame(others, {}, 'no other status')
  t.ok(served > 100 && late <= served / 20, JSON.stringify(counts))
})
