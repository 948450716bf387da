// @ts-nocheck These libraries are not dependencies of the repository; npm installs them for this test.
/** Makes the usual calls of Vercel's `ai` to a gateway; see clients.py. */
import { createAnthropic } from '@ai-sdk/anthropic'
import { createOpenAI } from '@ai-sdk/openai'
import { APICallError, embed, generateText, RetryError, streamText } from 'ai'

const { BASE_URL, KEY, WRONG_KEY, SPENT_KEY } = process.env
const words = 'a small river'
const found = {}

async function check(name, call) {
  try {
    const result = await call()
    found[name] = result ? 'ok' : `it answered ${JSON.stringify(result)}`
  } catch (error) {
    found[name] = `${error.name}: ${error.message}`.slice(0, 600)
  }
}

const openai = (apiKey = KEY) => createOpenAI({ baseURL: `${BASE_URL}/v1`, apiKey })
const anthropic = createAnthropic({ baseURL: `${BASE_URL}/v1`, apiKey: KEY })
const says = async (model) => (await generateText({ model, prompt: 'Hi' })).text.includes(words)
async function streams(model) {
  let text = ''
  const { textStream, usage } = streamText({ model, prompt: 'Hi' })
  for await (const part of textStream) text += part
  return text.includes(words) && (await usage).totalTokens > 0
}
async function refused(status, model) {
  try {
    await generateText({ model, prompt: 'Hi', maxRetries: 1 })
  } catch (error) {
    const last = RetryError.isInstance(error) ? error.lastError : error
    return APICallError.isInstance(last) && last.statusCode === status
  }
}

await check('openai(…), which is responses', () => says(openai()('sim')))
await check('openai(…), streamed', () => streams(openai()('sim')))
await check('openai.chat', () => says(openai().chat('sim')))
await check('openai.chat, streamed', () => streams(openai().chat('sim')))
await check('openai.completion', async () => {
  return (await generateText({ model: openai().completion('sim'), prompt: 'Hi' })).text
})
await check('anthropic', () => says(anthropic('sim')))
await check('anthropic, streamed', () => streams(anthropic('sim')))
await check('embed', async () => {
  return (await embed({ model: openai().textEmbeddingModel('sim'), value: 'a' })).embedding.length
})
await check('401', () => refused(401, openai(WRONG_KEY)('sim')))
await check('403', () => refused(403, openai()('closed')))
await check('429', () => refused(429, openai(SPENT_KEY)('sim')))
console.log(JSON.stringify(found))
