import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'tap'
import { agentSnippets } from '../../console/src/keys/agent-snippets.ts'
import { snippets } from '../../console/src/keys/snippets.ts'
import { findOnPath } from '../../dev/python-wheel.ts'
import { packageRoot } from '../../src/runtime/package-root.ts'

const hostile = [
  'sim-small',
  `x'; echo run; '`,
  `"}' ; echo run #`,
  '$(echo run)`echo run`!!\\',
  '"); print("run") #',
  "'}); console.log('run') //",
  '$' + '{process.exit(1)}',
]

function textOf(id: string, model: string): string {
  const snippet = snippets.find((each) => each.id === id)
  if (snippet === undefined) throw new Error(`there is no ${id}`)
  return snippet.text({ gateway: 'http://gateway.example', key: 'sk-tg-a_b', model })
}

test('in a shell the name of a model is data', async (t) => {
  for (const model of hostile) {
    const script = `curl() { printf '%s\\n' "$@"; }\n${textOf('curl', model)}`
    const lines = execFileSync('bash', ['-c', script], { encoding: 'utf8' }).trimEnd().split('\n')
    t.equal(JSON.parse(lines.at(-1) ?? '').model, model)
    t.equal(lines.length, 7, 'and nothing else is printed')
  }
})

const programs = ['aider', 'claude', 'cline', 'codex', 'copilot', 'opencode', 'qwen']
const variables = ['ANTHROPIC_MODEL', 'OPENAI_MODEL', 'COPILOT_MODEL', 'OPENCODE_CONFIG_CONTENT']

test('in the lines for coding agents too', async (t) => {
  const values = variables.map((name) => `"$${name}"`).join(' ')
  const tell = `() { printf '%s\\0' "$@" ${values}; }\n`
  for (const { id, text } of agentSnippets) {
    for (const model of hostile) {
      const lines = text({ gateway: 'http://gateway.example', key: 'sk-tg-a_b', model })
      const script = programs.map((name) => name + tell).join('') + lines
      const words = execFileSync('sh', ['-c', script], { encoding: 'utf8' }).split('\0')
      const read = words.map((word) => (word.startsWith('{') ? JSON.parse(word).model : word))
      const isWhole = ['', 'openai/', 'tollgate/'].some((before) => read.includes(before + model))
      t.ok(isWhole, `${id}: ${model}`)
      t.notOk(
        words.some((word) => word.startsWith('run')),
        'and nothing else is run',
      )
    }
  }
})

test('the documentation shows the same lines for coding agents', async (t) => {
  const documentation = readFileSync(join(packageRoot, 'docs', 'clients.md'), 'utf8')
  const values = { gateway: 'http://127.0.0.1:8000', key: '$TOLLGATE_KEY', model: 'sim-small' }
  for (const { id, text } of agentSnippets) {
    const lines = text(values)
    t.ok(documentation.includes(`\`\`\`sh\n${lines}\n\`\`\``), `${id}:\n${lines}`)
  }
})

test('in JavaScript too', async (t) => {
  for (const id of ['openai-node', 'anthropic-node']) {
    for (const model of hostile) {
      const text = textOf(id, model).replace(/^import .*$/m, '')
      const sent: { model: string }[] = []
      const create = async (body: { model: string }) => void sent.push(body)
      class Client {
        readonly chat = { completions: { create } }
        readonly messages = { create }
      }
      const body = text.replace(/^console\.log\(answer.*$/m, '')
      const run = new Function('OpenAI', 'Anthropic', `return (async () => {${body}})()`)
      await run(Client, Client)
      t.strictSame(
        sent.map((each) => each.model),
        [model],
      )
    }
  }
})

const python = findOnPath('python3', process.env)
test('in Python too', { skip: python === undefined && 'no Python' }, async (t) => {
  const read = `import ast, json, sys
calls = [node for node in ast.walk(ast.parse(sys.stdin.read())) if isinstance(node, ast.Call)]
named = [word.value.value for call in calls for word in call.keywords if word.arg == "model"]
print(json.dumps([named, len(calls)]))`
  for (const id of ['openai-python', 'anthropic-python']) {
    for (const model of hostile) {
      const input = textOf(id, model)
      const told = execFileSync(python as string, ['-c', read], { input, encoding: 'utf8' })
      t.strictSame(JSON.parse(told), [[model], 3])
    }
  }
})
