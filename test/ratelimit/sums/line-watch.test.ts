import { setTimeout as delay } from 'node:timers/promises'
import root, { type Test } from 'tap'
import { startLineWatch } from '../../../src/ratelimit/sums/line-watch.ts'
import { poll } from '../../support/poll.ts'

/** Files whose lines the test writes, and what was asked of them. */
function startWatch(t: Test, canWatch = true, isAlone = false) {
  const state = { written: 0, read: 0, looks: 0, wholeLooks: 0, watches: 0, isBroken: false }
  const lineBytes = 600
  const faults: unknown[] = []
  let onChange: ((moved: boolean) => void) | undefined
  function readEnds(): void {
    state.looks += 1
    if (state.isBroken) throw new Error('broken')
    state.read = state.written
  }
  const ending = new AbortController()
  const watch = startLineWatch({
    tail: {
      get read() {
        return { lines: state.read, bytes: state.read * lineBytes }
      },
      watched: () => 'folder',
      watch(listener) {
        if (!canWatch) return undefined
        state.watches += 1
        onChange = listener
        return () => {
          onChange = undefined
        }
      },
      readEnds,
      async readAll() {
        state.wholeLooks += 1
        readEnds()
      },
    },
    isAlone,
    monotonic: () => performance.now(),
    onFault: (error) => faults.push(error),
    signal: ending.signal,
  })
  t.teardown(() => {
    ending.abort()
    watch.end()
  })
  const isWatched = (): boolean => onChange !== undefined
  function write(moved = false): void {
    state.written += 1
    onChange?.(moved)
  }
  return {
    ...{ state, faults, watch },
    ...{ isWatched, write },
    async beginMany() {
      await delay(20)
      // On a busy machine the second of a pair may come too late to count as many.
      await poll(async () => {
        write()
        await delay(2)
        write()
        await delay(2)
        return !isWatched()
      }, 'many lines come')
    },
  }
}

root.test('a line that is told of is read at once', async (t) => {
  const { state, write, isWatched } = startWatch(t)
  await delay(20)
  write()
  await new Promise((resolve) => setImmediate(() => setImmediate(resolve)))
  t.equal(state.read, 1)
  t.equal(isWatched(), true)
})

root.test('while many lines come nothing tells of each, and all are read', async (t) => {
  const { state, write, isWatched } = startWatch(t)
  await delay(20)
  for (let i = 0; i < 3; i += 1) {
    write()
    await delay(2)
  }
  await poll(() => !isWatched(), 'nothing is watched')
  const before = state.looks
  for (let i = 0; i < 40; i += 1) {
    write()
    await delay(2)
  }
  t.equal(isWatched(), false)
  t.ok(state.looks - before < 40, `${state.looks - before} looks for 40 lines`)
  state.written += 1
  await poll(() => state.read === state.written, 'the last line is read')
  await poll(() => isWatched(), 'few lines come again')
  t.equal(state.watches, 2)
})

root.test(
  'a gateway that is alone looks less often, but before there is more than a Check reads',
  async (t) => {
    const { state, beginMany } = startWatch(t, true, true)
    await beginMany()
    async function looksFor(lines: number): Promise<number> {
      const before = state.looks
      const begun = performance.now()
      while (performance.now() - begun < 300) {
        state.written += lines
        await delay(1)
      }
      return (state.looks - before) / (performance.now() - begun)
    }
    t.ok((await looksFor(1)) < 0.11, 'few lines: one each 10 ms')
    t.ok((await looksFor(20)) > 0.15, 'many')
    await poll(() => state.read === state.written, 'the last line is read')
  },
)

root.test('while Checks look often there are few other looks', async (t) => {
  const { state, watch, beginMany } = startWatch(t)
  await beginMany()
  const before = state.looks
  const begun = performance.now()
  for (let i = 0; i < 100; i += 1) {
    state.written += 1
    watch.noteCheck()
    state.read = state.written
    watch.noteCheck()
    await delay(2)
  }
  const most = (performance.now() - begun) / 4
  t.ok(state.looks - before < most / 2, `${state.looks - before} looks, and not ${most}`)
  state.written += 1
  await poll(() => state.read === state.written, 'the last line is read')
})

root.test('a line does not wait until Checks come again', async (t) => {
  const { state, watch, beginMany } = startWatch(t)
  await beginMany()
  const before = state.looks
  for (let i = 0; i < 30; i += 1) {
    // Some at once, then none for a while.
    for (let k = 0; k < 4; k += 1) watch.noteCheck()
    state.read = state.written
    state.written += 1
    await delay(8)
  }
  t.ok(state.looks - before >= 28, `${state.looks - before} looks`)
})

root.test('new files are looked for at leisure where a watch tells of them', async (t) => {
  const { state, watch } = startWatch(t)
  await delay(350)
  t.equal(state.wholeLooks, 1)
  t.ok(state.looks > 2, 'what a watch has missed is found all the same')
  watch.searchAgain()
  await poll(() => state.wholeLooks === 2, 'somebody knows of a new file')
})

root.test('without a watch everything is looked at more often', async (t) => {
  const { state } = startWatch(t, false)
  await delay(200)
  t.ok(state.wholeLooks >= 5, String(state.wholeLooks))
})

root.test('files that could not be read are looked at as a whole until they can', async (t) => {
  const { state, faults } = startWatch(t)
  state.isBroken = true
  await poll(() => faults.length > 1, 'faults')
  t.ok(state.wholeLooks >= 2)
  state.isBroken = false
  state.written += 1
  await poll(() => state.read === state.written, 'read')
})
