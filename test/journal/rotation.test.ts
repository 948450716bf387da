import { test } from 'tap'
import type { ListedFile } from '../../src/journal/journal-folder.ts'
import { createRotation } from '../../src/journal/rotation.ts'

test('a file that has grown is renamed, and its writers begin another', async (t) => {
  const files: ListedFile[] = [
    { name: 'usage.jsonl', inode: '1', size: 99 },
    { name: 'usage.envoy.jsonl', inode: '2', size: 100 },
    { name: 'usage.jsonl.1795000000000', inode: '3', size: 500 },
  ]
  const events: string[] = []
  let isAway = true
  const rotation = createRotation({
    folder: {
      list: () => files.filter(({ inode }) => !events.includes(`renamed ${inode}`)),
      renew(name, earlier) {
        events.push(`renamed ${files.find((each) => each.name === name)?.inode}`, earlier)
      },
      appendText: (name, text) => events.push(`marked ${name} ${JSON.stringify(text)}`),
    },
    files: ['usage.jsonl', 'usage.envoy.jsonl'],
    framed: ['usage.jsonl'],
    maxBytes: 100,
    onRenamed: () => events.push('told scripts'),
    async reopen() {
      events.push('asked Envoy')
      if (isAway) throw new Error('away')
    },
    now: () => 1_795_000_000_001,
  })
  const renamed = 'usage.envoy.jsonl.1795000000001'
  const earlier = { name: 'usage.jsonl.1795000000000' }
  await t.rejects(rotation.step())
  t.equal(rotation.isLeft(earlier), false, 'an earlier process may have asked in vain')
  t.strictSame(events, ['renamed 2', renamed, 'told scripts', 'asked Envoy'])
  t.equal(rotation.isLeft({ name: renamed }), false, 'Envoy may still write it')
  isAway = false
  await rotation.step()
  t.equal(events.at(-1), 'asked Envoy')
  t.equal(rotation.isLeft({ name: renamed }), true)
  t.equal(rotation.isLeft(earlier), true)
  await rotation.step()
  t.equal(events.length, 5)
  files.push({ name: 'usage.jsonl', inode: '4', size: 100 })
  files.shift()
  await rotation.step()
  t.strictSame(
    events.slice(5),
    [
      ...['renamed 4', 'usage.jsonl.1795000000001'],
      ...['marked usage.jsonl.1795000000001 "\\n\\n\\n\\n"', 'told scripts', 'asked Envoy'],
    ],
    'whoever reads the old one learns of the new one before a line is in it',
  )
})
