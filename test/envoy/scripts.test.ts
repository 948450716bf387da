import { createHash } from 'node:crypto'
import { join } from 'node:path'
import { test } from 'tap'
import { filesOf } from '../../src/journal/files.ts'
import type { LimitState } from '../../src/ratelimit/rules/counter.ts'
import { putLimitHeaders } from '../../src/ratelimit/rules/limit-headers.ts'
import { envoyPath } from '../support/envoy-binary.ts'
import { startLoneScript } from '../support/lone-script.ts'
import { poll } from '../support/poll.ts'
import { createRandom } from '../support/random.ts'
import { bootTime, writeTable } from '../support/table-files.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const skip = envoyPath() === undefined && 'no Envoy'

test('the script has the SHA-256 of Node, whatever the length', { skip }, async (t) => {
  const code = `
    local one, two, three = input:match("^([^|]*)|([^|]*)|([^|]*)$")
    local sum = sha256_of(one, two, three)
    if not sum then return "too long" end
    return (ffi_string(sum, 32):gsub(".", function(c) return ("%02x"):format(c:byte()) end))`
  const ask = await startLoneScript(
    t,
    ['sha256'],
    `local ffi_string = require("ffi").string\n${code}`,
  )
  const parts = (length: number) => {
    const [first, second] = [Math.floor(length / 3), Math.floor(length / 5)]
    const text = (count: number) =>
      Array.from({ length: count }, (_, i) => 'abcö'[(count * 7 + i * i) % 3]).join('')
    return [text(first), text(second), text(length - first - second)]
  }
  for (let length = 0; length <= 1_278; length += length < 200 ? 1 : 23) {
    const texts = parts(length)
    const expected = createHash('sha256').update(texts.join('\0')).digest('hex')
    const given = await ask(texts.join('|'))
    if (given !== expected) t.equal(given, expected, `${length} bytes`)
  }
  t.equal(await ask(parts(1_279).join('|')), 'too long')
})

test('the script tells limits as Check does', { skip }, async (t) => {
  // Cells of 'limit:left:resetsAt:scope', and the time.
  const code = `
    local dialect, now, cells = input:match("^(%l+) (%d+) (.*)$")
    local plan = { policy = "p", limits = {}, limit_texts = {}, items = {}, of_key = {}, is_anthropic = dialect == "anthropic" }
    for name, limit, left, resets, scope in cells:gmatch("(%w+):(%d+):(%d+):(%d+):(%a)") do
      local place = #plan.limits + 1
      plan.limits[place], plan.limit_texts[place], plan.of_key[place] = tonumber(limit), limit, scope == "k"
      plan.items[place] = '"' .. name .. '";r='
      set_limit(place - 1, tonumber(left), tonumber(resets))
    end
    return limits_text(plan, #plan.limits, tonumber(now))`
  const offered = `
function set_limit(at, of, resets) left[at], resets_at[at] = of, resets end
_G.limits_text = limits_text`
  const ask = await startLoneScript(t, ['lanes', 'table'], code, (text) =>
    text.includes('local function limits_text') ? text + offered : text,
  )
  const random = createRandom()
  const whole = (most: number) => Math.floor((random.below(2 ** 31) / 2 ** 31) * most)
  for (let round = 0; round < 400; round += 1) {
    const now = 1_795_000_000_000 + whole(100_000_000)
    const dialect = round % 2 === 0 ? 'openai' : 'anthropic'
    const states = Array.from({ length: 1 + whole(4) }, (_, i): LimitState => {
      const limit = [10, 1_000, 4_294_967_296, 9_007_199_254_740_991][whole(4)] ?? 1
      const remaining = round % 3 === 0 ? Math.ceil(limit / 2) : 1 + whole(limit)
      const wait = 1 + whole([900, 5_000, 3_700_000, 90_000_000][whole(4)] ?? 1)
      const scope = i > 1 ? 'key' : 'user'
      const counted = { name: `w${i}`, limit, scope, kind: 'tokens', policy: 'p' }
      return {
        ...{ limit: counted, used: limit - remaining, remaining, resetsAt: now + wait },
      } as unknown as LimitState
    })
    const headers = new Map<string, string>()
    putLimitHeaders(dialect, states, now, (name, value) => headers.set(name, value))
    const names =
      dialect === 'openai'
        ? ['limit', 'remaining', 'reset'].map((name) => `x-ratelimit-${name}-tokens`)
        : ['limit', 'remaining', 'reset'].map((name) => `anthropic-ratelimit-tokens-${name}`)
    const expected = [...names, 'ratelimit'].map((name) => headers.get(name))
    const cells = states.map(
      ({ limit, remaining, resetsAt }) =>
        `${limit.name}:${limit.limit}:${remaining}:${resetsAt}:${limit.scope[0]}`,
    )
    const [, ...told] = (await ask(`${dialect} ${now} ${cells.join(' ')}`)).split('\t')
    t.strictSame(told, expected, `seed ${random.seed}: ${cells.join(' ')}`)
  }
})

test('a miss of a known record says where its response adds', { skip }, async (t) => {
  const journal = join(temporaryFolder(t), 'usage.jsonl')
  const { table: tableFile, lanes } = filesOf(journal)
  const code = `
    local model, form, bytes = input:match("(.) ?(%d?) ?(%a*)$")
    local id = "00000000-0000-" .. (form == "" and "4" or form) .. "000-8000-000000000000"
    local plan, why, lane = decide_by_table("sk-a", "/p", model, id, 1795000000000, bytes == "" and 10 or nil)
    return plan and "hit" or why .. "|" .. (lane or "")`
  const ask = await startLoneScript(t, ['line', 'sha256', 'lanes', 'table'], code, (text) =>
    text
      .replace('local TABLE = ""', `local TABLE = "${tableFile}"`)
      .replace('local LANES = ""', `local LANES = "${lanes}"`),
  )
  const table = writeTable(journal)
  table.head({ lease: bootTime() + 4_900 })
  table.template(0, ['', '', '/p', '', '', '', '', 'p', 'h:1000:u,d:9000:k', ''].join('\n'))
  table.record(['sk-a', '/p', 'm'], { blocks: [0, 1] })
  table.block(0)
  table.block(1)
  await poll(async () => (await ask('m')) === 'hit', 'the script has found the table')
  t.equal(await ask('m 9'), `traced|${table.file} 0 1`, 'so does one whose span is recorded')
  t.equal(await ask('m 4 long'), `shape|${table.file} 0 1`, 'and one with a long body')
  t.equal(await ask('n 9'), 'traced|')
  table.block(1, { freshUntil: bootTime() - 20 })
  t.equal(await ask('m'), `fresh|${table.file} 0 1`, 'also if a process without lanes decides it')
  t.equal(await ask('n'), 'unknown|')
  table.record(['sk-a', '/p', 'm'], { blocks: [0, 1], until: bootTime() - 20 })
  t.equal(await ask('m'), 'stale|', 'its blocks may be those of others')
  t.equal(await ask('m 9'), 'traced|')
})
