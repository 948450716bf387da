/**
 * Sends requests of all shapes through the whole product with real model servers. All text that a
 * server generates must be counted, and only callers with access may get any.
 *
 * In `npm test` it runs for some seconds with two servers and always the same requests; `npm run
 * fuzz:gateway` uses all servers, another seed and half an hour. Settings: FUZZ_SECONDS, FUZZ_SEED,
 * FUZZ_SERVERS (names, or all), FUZZ_CASE (the case of a find, such as `models-tail + label:7
 * (good)`, is run alone), FUZZ_KEEP=1 (writes finds into the corpus).
 */
import { randomInt } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import root, { test } from 'tap'
import { envoyPath } from '../../../support/envoy-binary.ts'
import { type AnswerFind, answerCampaign } from './answer-campaign.ts'
import { startAnswerServers } from './answer-server.ts'
import { campaign, type Find } from './campaign.ts'
import { describe, readCase } from './case.ts'
import { keep, readCorpus } from './corpus.ts'
import { render } from './draft.ts'
import { serverNames, startServer, type Variant } from './servers.ts'
import { startWorld } from './world.ts'

const seconds = Number(process.env.FUZZ_SECONDS ?? 12)
const seed =
  process.env.FUZZ_SEED === 'random'
    ? randomInt(2 ** 31)
    : Number(process.env.FUZZ_SEED ?? 20_261_121)
const wanted = process.env.FUZZ_SERVERS ?? 'aiohttp,express'
const names = wanted === 'all' ? serverNames : wanted.split(',')
const again = process.env.FUZZ_CASE
const keeps = process.env.FUZZ_KEEP === '1'

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

function showAnswer({ number, answer, counted, status, texts }: AnswerFind): string {
  const bytes = Buffer.concat(answer.parts).toString()
  const lines = [
    `FIND answer ${number}: ${answer.traits.join(' ')}: ${status}, ${counted} counted, ${texts} of ${answer.texts} texts`,
    `  may be ${answer.allowed.join(' or ')}; ${JSON.stringify(bytes.slice(0, 700))}`,
  ]
  return lines.join('\n')
}

function show({ variant, rule, detail, case: it, draft, verdict }: Find, file?: string): string {
  const bytes = render(draft, it.standing === 'none' ? undefined : '{{key}}').toString('latin1')
  const lines = [
    `FIND ${variant}: ${rule}: ${detail}`,
    `  ${describe(it)}${file === undefined ? '' : `, kept as ${file}`}`,
    `  answered ${verdict.reply.statuses.join(', ')}; ${draft.transport}`,
    `  ${JSON.stringify(bytes.slice(0, 1_200))}`,
  ]
  return lines.join('\n')
}
