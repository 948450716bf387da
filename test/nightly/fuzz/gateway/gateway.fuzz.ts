/**
 * Sends requests of all shapes through the whole product with real model servers. All text that a
 * server generates must be counted, and only callers with access may get any.
 *
 * `npm test` sends the corpus and a few generated requests (test/e2e/corpus.test.ts). Settings: FUZZ_SECONDS, half an hour by default,
 * FUZZ_SEED, FUZZ_SERVERS (names; by default all), FUZZ_CASE (the case of a find, such as `models-tail + label:7 (good)`, is run
 * alone), FUZZ_KEEP=0 (leaves finds out of the corpus).
 */
import { randomInt } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import root, { test } from 'tap'
import { envoyPath } from '../../../support/envoy-binary.ts'
import { type AnswerFind, answerCampaign, showAnswer } from './answer-campaign.ts'
import { startAnswerServers } from './answer-server.ts'
import { campaign, type Find, show } from './campaign.ts'
import { readCase } from './case.ts'
import { keep, readCorpus } from './corpus.ts'
import { serverNames, startServer, type Variant } from './servers.ts'
import { startWorld } from './world.ts'

const seconds = Number(process.env.FUZZ_SECONDS ?? 1_800)
const seed = Number(process.env.FUZZ_SEED ?? randomInt(2 ** 31))
const wanted = process.env.FUZZ_SERVERS ?? 'all'
const names = wanted === 'all' ? serverNames : wanted.split(',')
const again = process.env.FUZZ_CASE
const keeps = process.env.FUZZ_KEEP !== '0'

const skip = envoyPath() === undefined && 'no Envoy'

const variants: Variant[] = []

test('the model servers start', { skip }, async (t) => {
  for (const name of names) {
    try {
      variants.push(...(await startServer(root, name)))
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error)
      // A test of the file, so that the last lines of the run name it.
      root.pass(`${name} is behind the gateway`, { skip: reason.replace(/\s+/g, ' ') })
    }
  }
  t.comment(variants.map(({ name }) => name).join(' '))
})

test('all generated text is counted', { skip }, async (t) => {
  if (variants.length === 0) return
  t.comment(`seed ${seed}, ${seconds} s`)
  const world = await startWorld(t, { variants, width: 3 })
  const finds: Find[] = []
  const corpus = readCorpus()
  const score = await campaign({
    world,
    corpus,
    ...(again !== undefined && { only: Array(30).fill(readCase(again, corpus)) }),
    seed,
    seconds,
    onFind: (find) => {
      finds.push(find)
      const title = `${find.variant}-${find.rule}`
      const file = keeps ? keep(find.draft, find.lane, title) : undefined
      t.comment(show(find, file))
    },
  })
  t.comment(`${score.cases} cases, ${score.withText} with text, ${score.tokens} tokens`)
  t.comment(`statuses ${[...score.statuses].map((pair) => pair.join(': ')).join(', ')}`)
  for (const each of score.unconfirmed) t.comment(`not reproduced: ${each}`)
  t.ok(score.withText > 0, 'some responses have text')
  t.equal(finds.length, 0, `no rule was broken, seed ${seed}`)
  t.equal(
    (await fetch(`http://${world.gateway.envoy.admin}/ready`)).status,
    200,
    'Envoy is running',
  )
  const highest = highestMiB(world.gateway.envoy.pid)
  if (highest !== undefined) t.ok(highest < 1_000, `Envoy has used at most ${highest} MiB`)
})

test('every form of usage is counted', { skip: skip || again !== undefined }, async (t) => {
  const world = await startWorld(t, {
    variants: await startAnswerServers(t),
    width: 4,
    env: { METER_PATHS: 'chat,messages' },
  })
  const finds: AnswerFind[] = []
  const { tried, culprits } = await answerCampaign({
    seats: world.seats,
    url: world.gateway.url,
    seed,
    seconds: seconds / 5,
    onFind: (find) => finds.push(find),
  })
  for (const trait of culprits) t.comment(`never counted as promised: ${trait}`)
  const isExplained = ({ answer }: AnswerFind) => answer.traits.some((it) => culprits.includes(it))
  const examples = culprits.map((trait) =>
    finds.find(({ answer }) => answer.traits.includes(trait)),
  )
  const others = finds.filter((find) => !isExplained(find)).slice(0, 20)
  for (const find of [...examples, ...others]) if (find !== undefined) t.comment(showAnswer(find))
  t.comment(`${tried} answers`)
  t.equal(finds.length, 0, `all counted as promised, seed ${seed}`)
})

/** The peak memory of a process; undefined if the system does not report it. */
function highestMiB(pid: number): number | undefined {
  const file = `/proc/${pid}/status`
  const text = existsSync(file) ? readFileSync(file, 'utf8') : ''
  const highest = /^VmHWM:\s*(\d+) kB/m.exec(text)?.[1]
  return highest === undefined ? undefined : Math.round(Number(highest) / 1_024)
}
