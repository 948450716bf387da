/** Coding agents: how each is set up, as in docs/clients.md, and what a person sees of a refusal. */

import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

interface Settings {
  /** The gateway. */
  readonly url: string
  readonly key: string
  readonly model: string
  /** An empty folder, in which it works too. */
  readonly home: string
}

export interface Agent {
  readonly name: string
  readonly bin: string
  readonly start: (settings: Settings) => {
    readonly args: readonly string[]
    readonly env: Readonly<Record<string, string>>
  }
  /** What it says of a bad key, and of a model that is not open to the key's owner. */
  readonly bad: RegExp
  readonly shut: RegExp
  /** What it says of a limit of a day; undefined: it waits without a word. */
  readonly day?: RegExp
}

const task = 'Print the word in the file word.txt.'
const badKey = /The credential is missing or not valid\./
const shutModel = /The model \\?"shut\\?" does not exist or you have no access to it/

function write(home: string, path: string, content: string | object): void {
  const file = join(home, path)
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, typeof content === 'string' ? content : JSON.stringify(content))
}

export const agents: readonly Agent[] = [
  {
    name: 'Claude Code',
    bin: 'claude',
    start: ({ url, key, model }) => ({
      args: ['-p', task, '--allowedTools', 'Bash'],
      env: {
        ANTHROPIC_BASE_URL: url,
        ANTHROPIC_AUTH_TOKEN: key,
        ANTHROPIC_MODEL: model,
        ANTHROPIC_DEFAULT_HAIKU_MODEL: model,
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
      },
    }),
    bad: badKey,
    shut: /There's an issue with the selected model \(shut\)/,
    day: /The token limit of your subscription for this model is used up/,
  },
  {
    name: 'Codex',
    bin: 'codex',
    start: ({ url, key, model, home }) => {
      write(
        home,
        '.codex/config.toml',
        `model = "${model}"
model_provider = "tollgate"

[model_providers.tollgate]
name = "Tollgate"
base_url = "${url}/v1"
env_key = "TOLLGATE_KEY"
wire_api = "responses"
stream_max_retries = 1
`,
      )
      const flags = ['--skip-git-repo-check', '--dangerously-bypass-approvals-and-sandbox']
      return { args: ['exec', ...flags, task], env: { TOLLGATE_KEY: key } }
    },
    bad: badKey,
    shut: shutModel,
    day: /You.ve hit your usage limit\. Try again at/,
  },
  {
    name: 'opencode',
    bin: 'opencode',
    start: ({ url, key, model, home }) => {
      write(home, 'opencode.json', {
        model: `tollgate/${model}`,
        small_model: `tollgate/${model}`,
        provider: {
          tollgate: {
            npm: '@ai-sdk/openai-compatible',
            options: { baseURL: `${url}/v1`, apiKey: '{env:TOLLGATE_KEY}' },
            models: { [model]: {} },
          },
        },
      })
      return { args: ['run', task], env: { TOLLGATE_KEY: key } }
    },
    bad: badKey,
    shut: shutModel,
  },
  {
    name: 'qwen-code',
    bin: 'qwen',
    start: ({ url, key, model }) => ({
      args: ['--auth-type', 'openai', '--yolo', '-p', task],
      env: { OPENAI_BASE_URL: `${url}/v1`, OPENAI_API_KEY: key, OPENAI_MODEL: model },
    }),
    bad: badKey,
    shut: shutModel,
  },
  {
    name: 'cn',
    bin: 'cn',
    start: ({ url, key, model, home }) => {
      const name = 'tollgate'
      const server = { provider: 'openai', apiBase: `${url}/v1`, apiKey: key }
      const entry = { name, ...server, model, capabilities: ['tool_use'] }
      write(home, 'config.yaml', { name, version: '1.0.0', schema: 'v1', models: [entry] })
      return { args: ['--config', 'config.yaml', '--auto', '-p', task], env: {} }
    },
    bad: badKey,
    shut: shutModel,
  },
  {
    name: 'pi',
    bin: 'pi',
    start: ({ url, key, model, home }) => {
      const server = { baseUrl: `${url}/v1`, api: 'openai-completions', apiKey: 'TOLLGATE_KEY' }
      const tollgate = { ...server, models: [{ id: model }] }
      write(home, '.pi/agent/models.json', { providers: { tollgate } })
      const args = ['--provider', 'tollgate', '--model', model, '-p', task]
      return { args, env: { TOLLGATE_KEY: key } }
    },
    bad: badKey,
    shut: shutModel,
    day: /The token limit of your subscription for this model is used up/,
  },
]
