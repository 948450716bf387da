import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'tap'
import { envoyPath } from '../support/envoy-binary.ts'
import { mountSmallDisk, skipSmallDisk } from '../support/small-disk.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { runTollgate } from '../support/tollgate.ts'

test('a full disk is named by the file and what to do', { skip: skipSmallDisk }, async (t) => {
  const disk = mountSmallDisk(t)
  const full = join(disk.path, 'data')
  const kept = temporaryFolder(t)
  mkdirSync(full)
  disk.fill()
  const journal = { USAGE_JOURNAL: join(kept, 'journal', 'usage.jsonl') }
  for (const [words, settings, file] of [
    ['envoy-config --write', { DATA_DIR: full }, /journal\/usage\.head/],
    ['envoy-config --write', { DATA_DIR: full, ...journal }, /envoy\/clusters\.json/],
    ['up', { DATA_DIR: full, ENVOY_PATH: envoyPath() ?? '' }, /in-use\.\d+/],
    ['migrate', { DATA_DIR: full }, /postgres\/in-use\.\d+/],
  ] as const) {
    const command = runTollgate(t, words.split(' '), settings)
    t.equal(await command.ended, 1, words)
    const [line, ...more] = command.output().trim().split('\n')
    t.match(line, / cannot be written \(ENOSPC\): free space there$/, words)
    t.match(line, file)
    t.strictSame(more, [])
  }
})
