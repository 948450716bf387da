/** The corpus of `npm run fuzz:gateway`, with a few generated requests and responses, always the same. */
import root, { test } from 'tap'
import {
  type AnswerFind,
  answerCampaign,
  showAnswer,
} from '../nightly/fuzz/gateway/answer-campaign.ts'
import { startAnswerServers } from '../nightly/fuzz/gateway/answer-server.ts'
import { campaign, type Find, show } from '../nightly/fuzz/gateway/campaign.ts'
import { readCorpus } from '../nightly/fuzz/gateway/corpus.ts'
import { startServer } from '../nightly/fuzz/gateway/servers.ts'
import { startWorld } from '../nightly/fuzz/gateway/world.ts'
import { envoyPath } from '../support/envoy-binary.ts'

const skip = envoyPath() === undefined && 'no Envoy'
const [seed, requests, responses, seconds] = [20_261_121, 100, 100, 120]

test('all text for requests of the corpus is counted', { skip }, async (t) => {
  const world = await startWorld(t, { variants: await startServer(root, 'express'), width: 3 })
  const finds: Find[] = []
  const score = await campaign({
    ...{ world, corpus: readCorpus(), seed, seconds, most: requests },
    onFind: (find) => {
      finds.push(find)
      t.comment(show(find))
    },
  })
  for (const each of score.unconfirmed) t.comment(`not reproduced: ${each}`)
  t.ok(score.withText > 0, 'some responses have text')
  t.equal(finds.length, 0, 'no rule was broken')
  const { status } = await fetch(`http://${world.gateway.envoy.admin}/ready`)
  t.equal(status, 200, 'Envoy is running')
})

test('every form of usage is counted', { skip }, async (t) => {
  const { seats, gateway } = await startWorld(t, {
    variants: await startAnswerServers(t),
    width: 4,
    env: { METER_PATHS: 'chat,messages' },
  })
  const finds: AnswerFind[] = []
  const { tried } = await answerCampaign({
    ...{ seats, url: gateway.url, seed, seconds, most: responses },
    onFind: (find) => finds.push(find),
  })
  for (const find of finds.slice(0, 20)) t.comment(showAnswer(find))
  t.ok(tried >= responses, 'all were sent')
  t.equal(finds.length, 0, 'all counted as promised')
})
