/**
 * Starts coding agents with the key in TOLLGATE_KEY: lines for a shell, the last of which starts the agent.
 * docs/clients.md shows them, and `npm run compat` runs them.
 */

import { type Snippet, shell } from './snippets.ts'

export const agentSnippets: readonly Snippet[] = [
  {
    id: 'claude-code',
    label: 'Claude Code',
    text: ({ gateway, model }) => `export ANTHROPIC_BASE_URL=${gateway}
export ANTHROPIC_AUTH_TOKEN=$TOLLGATE_KEY
export ANTHROPIC_MODEL=${shell(model)}
export ANTHROPIC_DEFAULT_HAIKU_MODEL=${shell(model)}
claude`,
  },
  {
    id: 'codex',
    label: 'Codex',
    text: ({ gateway, model }) => `codex --model ${shell(model)} -c model_provider=tollgate \\
  -c model_providers.tollgate.name=Tollgate \\
  -c model_providers.tollgate.base_url=${gateway}/v1 \\
  -c model_providers.tollgate.env_key=TOLLGATE_KEY \\
  -c model_providers.tollgate.wire_api=responses \\
  -c model_providers.tollgate.stream_max_retries=1`,
  },
  {
    id: 'opencode',
    label: 'opencode',
    text: ({ gateway, model }) => `export OPENCODE_CONFIG_CONTENT=${shell(openCode(gateway, model))}
opencode`,
  },
  {
    id: 'qwen-code',
    label: 'qwen-code',
    text: ({ gateway, model }) => `export OPENAI_BASE_URL=${gateway}/v1
export OPENAI_API_KEY=$TOLLGATE_KEY
export OPENAI_MODEL=${shell(model)}
qwen --auth-type openai`,
  },
  {
    id: 'copilot',
    label: 'Copilot CLI',
    text: ({ gateway, model }) => `export COPILOT_PROVIDER_TYPE=openai
export COPILOT_PROVIDER_BASE_URL=${gateway}/v1
export COPILOT_PROVIDER_API_KEY=$TOLLGATE_KEY
export COPILOT_MODEL=${shell(model)}
export COPILOT_OFFLINE=true
copilot`,
  },
  {
    id: 'cline',
    label: 'cline',
    text: ({ gateway, model }) =>
      `cline auth -p openai -k $TOLLGATE_KEY -b ${gateway}/v1 -m ${shell(model)}
cline`,
  },
  {
    id: 'aider',
    label: 'aider',
    text: ({ gateway, model }) => `export OPENAI_API_BASE=${gateway}/v1
export OPENAI_API_KEY=$TOLLGATE_KEY
aider --model ${shell(`openai/${model}`)}`,
  },
]

/** The settings of opencode, which reads the key from the environment. */
function openCode(gateway: string, model: string): string {
  const tollgate = {
    npm: '@ai-sdk/openai-compatible',
    options: { baseURL: `${gateway}/v1`, apiKey: '{env:TOLLGATE_KEY}' },
    models: { [model]: {} },
  }
  const named = { model: `tollgate/${model}`, small_model: `tollgate/${model}` }
  return JSON.stringify({ ...named, provider: { tollgate } }, null, 2)
}
