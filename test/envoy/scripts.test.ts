import { createHash } from 'node:crypto'
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { type Test, test } from 'tap'
import { journalFilesOf } from '../../src/journal/journal-files.ts'
import type { LimitState } from '../../src/ratelimit/rules/limit.ts'
import { putLimitHeaders } from '../../src/ratelimit/rules/limit-headers.ts'
import { envoyPath } from '../support/envoy-binary.ts'
import { startLoneScript } from '../support/lone-script.ts'
import { createRandom } from '../support/random.ts'
import { bootTime, nameOf, writeTable } from '../support/table-files.ts'
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

test('the script knows where it finds its names', { skip }, async (t) => {
  const search = 'factor = factor * 5 + 2'
  const ask = await startLoneScript(t, ['request-body'], 'return "found"', (text) => {
    t.match(text, search)
    return text.replace(
      search,
      'error("names have changed: begin with the factor that this finds")',
    )
  })
  t.equal(await ask(''), 'found')
})

test('a thread that gets requests knows that it is not the main one', { skip }, async (t) => {
  const ask = await startLoneScript(t, ['request-body'], 'return tostring(IS_MAIN_THREAD)')
  t.equal(await ask(''), 'false', 'its code is compiled before the first request')
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
  const ask = await startLoneScript(t, ['system', 'lanes', 'table'], code, (text) =>
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

/** What a response of 12 tokens does, by the names of its blocks; of so many responses, how many have added. */
function startAdding(t: Test, journal: string) {
  const { table, lanes } = journalFilesOf(journal)
  const code = `
    local name, times = input:match("^(%x+) (%d%d%d+)$")
    if not name then return add_by_table(input, 12, now_ms()) or "nothing" end
    local added = 0
    for _ = 1, tonumber(times) do added = added + (add_by_table(name, 12, now_ms()) and 1 or 0) end
    return added`
  return startLoneScript(t, ['system', 'line', 'sha256', 'lanes', 'table'], code, (text) =>
    text
      .replace('local TABLE = ""', `local TABLE = "${table}"`)
      .replace('local LANES = ""', `local LANES = "${lanes}"`),
  )
}

test('a response adds to the blocks of its names that the table has', { skip }, async (t) => {
  const journal = join(temporaryFolder(t), 'usage.jsonl')
  const ask = await startAdding(t, journal)
  t.equal(await ask(nameOf(0)), 'nothing', 'there is no table')
  const table = writeTable(journal)
  table.block(0)
  table.block(1)
  await delay(10)
  // Nobody has asked for a decision since the table was there.
  t.equal(await ask(`${nameOf(0)} ${nameOf(1)}`), `${table.file} 12 0 1`)
  t.equal(await ask(`${nameOf(2)} ${nameOf(1)}`), `${table.file} 12 1`)
  t.equal(await ask(nameOf(2)), 'nothing')
  table.block(2)
  t.equal(await ask(nameOf(2)), `${table.file} 12 2`, 'put there meanwhile')
  table.block(2, { cells: [] })
  const odd = [nameOf(2), `${nameOf(0).slice(0, 8)}00000000`, '', '5 1', 'x'.repeat(16)]
  for (const names of odd) t.equal(await ask(names), 'nothing', names)
  t.strictSame([0, 1].map(table.added), [12, 24])
  // A gateway's writer was killed, and another one has made a table of its own.
  table.head({ lease: bootTime() - 20 })
  const next = writeTable(journal)
  next.block(0)
  await delay(10)
  t.equal(await ask(nameOf(0)), `${next.file} 12 0`)
})

test('workers that find no lane of their own share the last', { skip }, async (t) => {
  const journal = join(temporaryFolder(t), 'usage.jsonl')
  const workers = await Promise.all([1, 2, 3, 4].map(() => startAdding(t, journal)))
  const table = writeTable(journal, { lanes: 2 })
  table.block(0)
  await delay(10)
  for (const ask of workers) t.equal(await ask(nameOf(0)), `${table.file} 12 0`)
  const added = await Promise.all(workers.map((ask) => ask(`${nameOf(0)} 20000`)))
  const times = added.map(Number)
  t.equal(table.added(0), 12 * times.reduce((sum, each) => sum + each, 4), 'none is lost')
  for (const each of times) t.ok(each > 10_000, `${each} of 20000 had their turn`)
})

/** How a response is read: its pieces, and whether it is held, is edited, may be estimated, is Anthropic's. */
type Piecewise = {
  pieces: readonly string[]
  short?: true
  edits?: true
  estimate?: true
  anthropic?: true
}

test('the script frees the ballast only where there is no space', { skip }, async (t) => {
  const folder = temporaryFolder(t)
  const ballast = join(folder, 'ballast')
  writeFileSync(ballast, '')
  for (const lines of [join(folder, 'missing'), '/dev/full']) {
    const ask = await startLoneScript(
      t,
      ['system', 'line'],
      'return tostring(append_line("\\n{}\\n", now_ms()))',
      (text) =>
        text
          .replace('local LINES, HEAD = "", ""', `local LINES, HEAD = "${lines}", "${folder}/head"`)
          .replace('local BALLAST = ""', `local BALLAST = "${ballast}"`),
    )
    t.equal(await ask(''), 'false')
    t.equal(existsSync(ballast), lines !== '/dev/full', lines)
  }
})

test('a response is read as if none had been read before', { skip }, async (t) => {
  const code = `
    local results = {}
    for how, text in input:gmatch("(%a*)=([^\\2]*)\\2") do
      if how:find("n") then make_usage() end
      local pieces, said = {}, {}
      for piece in text:gmatch("[^\\1]+") do pieces[#pieces + 1] = piece end
      append_line = function(line) said[#said + 1] = line return true end
      local given = { [":status"] = "200", ["content-type"] = how:find("s") and "application/json" or "text/event-stream" }
      given["content-length"] = how:find("s") and "9" or nil
      local function part(of, at)
        return {
          length = function() return #of end,
          getBytes = function() return of end,
          setBytes = function(_, sent) said[#said + 1] = at .. ":" .. sent end,
        }
      end
      local metadata = { set = function(_, filter, name, value) said[#said + 1] = filter .. name .. tostring(value) end }
      local handle = {
        headers = function()
          return { get = function(_, name) return given[name] end, remove = function() end, replace = function() end }
        end,
        body = function() return part(table.concat(pieces), 0) end,
        bodyChunks = function()
          local at = 0
          return function()
            at = at + 1
            if at <= #pieces + 1 then return part(pieces[at] or "", at) end
          end
        end,
        streamInfo = function() return { dynamicMetadata = function() return metadata end } end,
        logErr = function(_, problem) said[#said + 1] = problem end,
      }
      local check = { metered = true, line = '{"start":1}', estimate = how:find("e") ~= nil, dialect = how:find("a") and "anthropic" or nil }
      read_response(handle, check, how:find("x") and { usage_added = true } or nil)
      results[#results + 1] = table.concat(said, "\\3")
    end
    return table.concat(results, "\\2")`
  const ask = await startLoneScript(
    t,
    ['usage'],
    code,
    (text) => `now_ms = function() return 5 end\nfunction make_usage()\n${text}\nend\nmake_usage()`,
  )
  const usage = '"usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}'
  const event = (data: string) => `data: ${data}\n\n`
  const word = event('{"choices":[{"index":0,"delta":{"content":"Hello"}}]}')
  const end = `${event(`{"choices":[],${usage}}`)}data: [DONE]\n\n`
  const kinds: readonly Piecewise[] = [
    { short: true, pieces: [`{"choices":[{"message":{}}],${usage}}`] },
    { short: true, pieces: ['{"choices":[{"usage":{"total_tokens":5}}]}'] },
    {
      short: true,
      pieces: [
        '{"x_groq":{"usage":{"total_tokens":6,"prompt_tokens_details":{"cached_tokens":2}}}}',
      ],
    },
    { short: true, pieces: ['{"data":[],"usage":{"prompt_tokens":9}}'] },
    { short: true, pieces: ['{"usage":{"prompt_tokens":9}}'] },
    { short: true, pieces: ['{"usage":{"total_tokens":2},"data":['] },
    { short: true, pieces: ['{"usage":{"total_tokens":8,"prompt_tokens":'] },
    { short: true, pieces: ['{"choices":[{"a":"b\\'] },
    { short: true, pieces: [`[{${usage}},{${usage}}]`] },
    { short: true, pieces: ['no JSON'] },
    {
      short: true,
      anthropic: true,
      pieces: [
        '{"usage":{"input_tokens":1,"output_tokens":2,"iterations":[{"type":"message","input_tokens":5,"output_tokens":0},{"type":"fallback_message","input_tokens":1,"output_tokens":9}]}}',
      ],
    },
    {
      short: true,
      anthropic: true,
      pieces: ['{"usage":{"input_tokens":3,"output_tokens":2,"iterations":[{"type":"message"'],
    },
    { pieces: ['{"choices":[{"text":"a', `"}],${usage}}`] },
    { pieces: [`[{${usage}},`, `{${usage}}]`] },
    { pieces: [word, word, end] },
    { edits: true, pieces: [word, end] },
    { edits: true, pieces: [word, end.slice(0, 30), end.slice(30)] },
    { edits: true, pieces: [word, 'event: x\nid: 1\n', 'data: {"choices":[],"usa'] },
    {
      estimate: true,
      pieces: [word, word.slice(0, -8), word.slice(-8), 'data: {"content":"and \\'],
    },
    {
      anthropic: true,
      pieces: [
        event('{"message":{"usage":{"input_tokens":4}}}'),
        event('{"usage":{"output_tokens":5}}'),
      ],
    },
    { edits: true, pieces: [word, `event: y\ndata: {"choices":[],${usage}}\n`] },
    { edits: true, pieces: ['event: z\n\n', event('{"choices":[{}],"usage":{"total_tokens":3}}')] },
    { pieces: ['data: {"x":"\r'] },
    { pieces: ['\ufeff\n', 'da'] },
    { pieces: [] },
  ]
  const toInput = ({ pieces, ...how }: Piecewise, isFirst = false) => {
    const letters = { short: 's', edits: 'x', estimate: 'e', anthropic: 'a' }
    const all = Object.entries(letters).map(([name, letter]) => (name in how ? letter : ''))
    return `${isFirst ? 'n' : ''}${all.join('')}=${pieces.join('\u0001')}\u0002`
  }
  const alone: string[] = []
  for (const kind of kinds) alone.push(await ask(toInput(kind, true)))
  t.match(alone[0], '"total_tokens":7')
  t.equal(new Set(alone).size, kinds.length, 'each has a result of its own')
  const random = createRandom()
  for (let round = 0; round < 60; round += 1) {
    const chosen = Array.from({ length: 30 }, () => random.below(kinds.length))
    const results = await ask(chosen.map((i) => toInput(kinds[i] as Piecewise)).join(''))
    t.strictSame(
      results.split('\u0002'),
      chosen.map((i) => alone[i]),
      `seed ${random.seed}`,
    )
  }
})
