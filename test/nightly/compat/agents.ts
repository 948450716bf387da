/** Coding agents: how each is set up, as on the console, and what a person sees of a refusal. */

import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { agentSnippets } from '../../../console/src/keys/agent-snippets.ts'
import { exportKey, type SnippetValues } from '../../../console/src/keys/snippets.ts'

interface Settings extends SnippetValues {
  /** An empty folder, in which it works too. */
  readonly home: string
}

export interface Agent {
  readonly name: string
  /** Its command. */
  readonly program: string
  /** Lines for a shell that let it do the task. */
  readonly script: (settings: Settings) => string
  /** What it says of a bad key, and of a model that is not open to the key's owner. */
  readonly bad: RegExp
  readonly shut: RegExp
  /** What it says of a limit of a day; undefined: it waits without a word. */
  readonly day?: RegExp
  /** What it says of a used-up budget; undefined: it retries for minutes. */
  readonly budget?: RegExp
}

const task = 'Print the word in the file word.txt.'
const badKey = /The credential is missing or not valid\./
const usedUpBudget = /The budget \\?"all\\?" of your subscription is used up/
const shutModel = /The model \\?"shut\\?" does not exist or you have no access to it/

function write(home: string, path: string, content: object): void {
  const file = join(home, path)
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, JSON.stringify(content))
}

/** The lines of the console, with arguments for a run without a person. */
function asShown(id: string, args: string): Agent['script'] {
  const snippet = agentSnippets.find((each) => each.id === id)
  if (snippet === undefined) throw new Error(`there is no ${id}`)
  return (settings) => `${exportKey(settings.key)}\n${snippet.text(settings)} ${args}`
}

const unasked = '--skip-git-repo-check --dangerously-bypass-approvals-and-sandbox'

export const agents: readonly Agent[] = [
  {
    name: 'Claude Code',
    program: 'claude',
    script: asShown('claude-code', `-p '${task}' --allowedTools Bash`),
    bad: badKey,
    shut: /There's an issue with the selected model \(shut\)/,
    day: /The token limit of your subscription for this model is used up/,
    budget: usedUpBudget,
  },
  {
    name: 'Codex',
    program: 'codex',
    script: asShown('codex', `exec ${unasked} '${task}'`),
    bad: badKey,
    shut: shutModel,
    day: /You.ve hit your usage limit\. Try again at/,
    budget: /You.ve hit your usage limit\. Try again at/,
  },
  {
    name: 'opencode',
    program: 'opencode',
    script: asShown('opencode', `run '${task}'`),
    bad: badKey,
    shut: shutModel,
    budget: usedUpBudget,
  },
  {
    name: 'qwen-code',
    program: 'qwen',
    script: asShown('qwen-code', `--yolo -p '${task}'`),
    bad: badKey,
    shut: shutModel,
  },
  {
    name: 'cn',
    program: 'cn',
    script: ({ gateway, key, model, home }) => {
      const name = 'tollgate'
      const server = { provider: 'openai', apiBase: `${gateway}/v1`, apiKey: key }
      const entry = { name, ...server, model, capabilities: ['tool_use'] }
      write(home, 'config.yaml', { name, version: '1.0.0', schema: 'v1', models: [entry] })
      return `cn --config config.yaml --auto -p '${task}'`
    },
    bad: badKey,
    shut: shutModel,
    day: /The token limit of your subscription for this model is used up/,
    budget: usedUpBudget,
  },
  {
    name: 'pi',
    program: 'pi',
    script: ({ gateway, key, model, home }) => {
      const server = { baseUrl: `${gateway}/v1`, api: 'openai-completions', apiKey: 'TOLLGATE_KEY' }
      const tollgate = { ...server, models: [{ id: model }] }
      write(home, '.pi/agent/models.json', { providers: { tollgate } })
      return `TOLLGATE_KEY=${key} pi --provider tollgate --model ${model} -p '${task}'`
    },
    bad: badKey,
    shut: shutModel,
    day: /The token limit of your subscription for this model is used up/,
    budget: usedUpBudget,
  },
]
