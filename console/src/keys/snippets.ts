/**
 * How to use a key in a shell and with libraries: text to copy unchanged, which tests run. The key comes from the
 * environment, so that it is neither in code nor repeated in the history of a shell.
 */

export interface SnippetValues {
  /** The gateway's address, without a trailing slash. */
  readonly gateway: string
  /** Only for a file that sets environment variables itself. */
  readonly key: string
  /**
   * The model's name in a body. The model's server chooses it, so it may be malicious code where the text is pasted.
   */
  readonly model: string
}

export interface Snippet {
  readonly id: string
  readonly label: string
  /** Where to paste it, or its requirements; by default a shell. */
  readonly hint?: string
  readonly text: (values: SnippetValues) => string
}

/** Sets the variable with the key for the other lines. */
export function exportKey(key: string): string {
  return `export TOLLGATE_KEY=${key}`
}

/** A word of a shell. */
export function shell(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`
}
/** A string of Python or JavaScript. */
const literal = (text: string): string => JSON.stringify(text)
const messages = [{ role: 'user', content: 'Hello' }]

export const snippets: readonly Snippet[] = [
  {
    id: 'curl',
    label: 'curl',
    text: ({ gateway, model }) => `curl ${gateway}/v1/chat/completions \\
  -H "authorization: Bearer $TOLLGATE_KEY" \\
  -H 'content-type: application/json' \\
  -d ${shell(JSON.stringify({ model, messages }))}`,
  },
  {
    id: 'env',
    label: '.env',
    hint: 'Variables that the clients of OpenAI and Anthropic read.',
    text: ({ gateway, key }) => `OPENAI_BASE_URL=${gateway}/v1
OPENAI_API_KEY=${key}
ANTHROPIC_BASE_URL=${gateway}
ANTHROPIC_AUTH_TOKEN=${key}`,
  },
  {
    id: 'openai-python',
    label: 'OpenAI, Python',
    hint: 'pip install openai',
    text: ({ gateway, model }) => `import os
from openai import OpenAI

client = OpenAI(base_url="${gateway}/v1", api_key=os.environ["TOLLGATE_KEY"])
answer = client.chat.completions.create(
    model=${literal(model)}, messages=[{"role": "user", "content": "Hello"}]
)
print(answer.choices[0].message.content)`,
  },
  {
    id: 'openai-node',
    label: 'OpenAI, JavaScript',
    hint: 'npm install openai',
    text: ({ gateway, model }) => `import OpenAI from 'openai'

const client = new OpenAI({ baseURL: '${gateway}/v1', apiKey: process.env.TOLLGATE_KEY })
const answer = await client.chat.completions.create({
  model: ${literal(model)},
  messages: [{ role: 'user', content: 'Hello' }],
})
console.log(answer.choices[0].message.content)`,
  },
  {
    id: 'anthropic-python',
    label: 'Anthropic, Python',
    hint: 'pip install anthropic',
    text: ({ gateway, model }) => `import os
from anthropic import Anthropic

client = Anthropic(base_url="${gateway}", api_key=os.environ["TOLLGATE_KEY"])
answer = client.messages.create(
    model=${literal(model)}, max_tokens=100, messages=[{"role": "user", "content": "Hello"}]
)
print(answer.content[0].text)`,
  },
  {
    id: 'anthropic-node',
    label: 'Anthropic, JavaScript',
    hint: 'npm install @anthropic-ai/sdk',
    text: ({ gateway, model }) => `import Anthropic from '@anthropic-ai/sdk'

const client = new Anthropic({ baseURL: '${gateway}', apiKey: process.env.TOLLGATE_KEY })
const answer = await client.messages.create({
  model: ${literal(model)},
  max_tokens: 100,
  messages: [{ role: 'user', content: 'Hello' }],
})
console.log(answer.content[0].text)`,
  },
]
