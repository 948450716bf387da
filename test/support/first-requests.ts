/**
 * The first request of each coding agent of docs/clients.md: the path with its query, and the fields of the body that a
 * server must accept. `end`: how the stream must end.
 */

export interface FirstRequest {
  readonly agent: string
  readonly path: string
  readonly body: Readonly<Record<string, unknown>>
  readonly headers?: Readonly<Record<string, string>>
  readonly end: RegExp
}

const asked = [{ role: 'user', content: 'hello' }]
const parameters = { type: 'object', properties: { command: { type: 'string' } } }
const shell = { name: 'shell', description: 'Runs a command.', parameters }
const chatTools = [{ type: 'function', function: shell }]
const done = /"finish_reason":"stop"[\s\S]*data: \[DONE\]\s*$/
const counted = /"usage":\{"prompt_tokens":\d+[\s\S]*data: \[DONE\]\s*$/
const usage = { stream_options: { include_usage: true } }

function chat(agent: string, more: Record<string, unknown>, end = done): FirstRequest {
  const messages = [{ role: 'system', content: 'You help.' }, ...asked]
  return {
    agent,
    path: '/v1/chat/completions',
    body: { messages, stream: true, ...more },
    end,
  }
}

export const firstRequests: readonly FirstRequest[] = [
  {
    agent: 'Claude Code',
    path: '/v1/messages?beta=true',
    headers: {
      'anthropic-version': '2023-06-01',
      'anthropic-beta': 'claude-code-20250219,interleaved-thinking-2025-05-14',
    },
    body: {
      max_tokens: 32_000,
      stream: true,
      system: [{ type: 'text', text: 'You help.', cache_control: { type: 'ephemeral' } }],
      messages: [{ role: 'user', content: [{ type: 'text', text: 'hello' }] }],
      tools: [{ name: shell.name, description: shell.description, input_schema: parameters }],
      metadata: { user_id: 'somebody' },
    },
    end: /event: message_stop\ndata: \{"type":"message_stop"\}\s*$/,
  },
  {
    agent: 'Claude Code, before a long request',
    path: '/v1/messages/count_tokens?beta=true',
    headers: { 'anthropic-version': '2023-06-01' },
    body: { messages: asked, tools: [] },
    end: /^\{"input_tokens":\d+\}$/,
  },
  {
    agent: 'Codex',
    path: '/v1/responses',
    body: {
      instructions: 'You help.',
      input: [{ type: 'message', role: 'user', content: [{ type: 'input_text', text: 'hello' }] }],
      tools: [{ type: 'function', ...shell, strict: false }],
      tool_choice: 'auto',
      parallel_tool_calls: false,
      reasoning: { effort: 'medium', summary: 'auto' },
      store: false,
      stream: true,
      include: ['reasoning.encrypted_content'],
      prompt_cache_key: 'a-session',
    },
    end: /event: response\.completed\ndata: \{.*"total_tokens":\d+.*\}\s*$/,
  },
  chat(
    'opencode',
    { ...usage, tools: chatTools, tool_choice: 'auto', max_tokens: 32_000 },
    counted,
  ),
  chat('qwen-code', { ...usage, tools: chatTools, temperature: 0 }, counted),
  chat('cn', { tools: chatTools, max_tokens: 4_096 }),
  chat('pi', { ...usage, store: false, max_completion_tokens: 16_384 }, counted),
  chat('Copilot CLI', { ...usage, n: 1, tools: chatTools, top_p: 0.95 }, counted),
  chat('cline', { ...usage, temperature: 0 }, counted),
  chat('llm', usage, counted),
  chat('aider', { temperature: 0 }),
]
