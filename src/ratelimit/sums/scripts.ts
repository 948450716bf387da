/** Operations on sums in Redis, in Lua, each one call for up to 512 windows. */

/** Keys, then arguments. */
export interface SumCommands {
  writeSums(keys: readonly string[], args: readonly (string | number)[]): Promise<WriteResult>
  readSums(keys: readonly string[], args: readonly []): Promise<readonly string[]>
  oldSums(keys: readonly string[], args: readonly string[]): Promise<readonly number[]>
  /** `writeSums` and releases of holds, in one transaction. */
  writeAndRelease(write: ScriptCall, releases: readonly ScriptCall[]): Promise<WriteResult>
}

export type ScriptCall = readonly [keys: readonly string[], args: readonly (string | number)[]]

/** The previous mark, then for each window the field and the total: numbers, or text beyond 15 digits. */
export type WriteResult = readonly [number: number, nonce: string, ...sums: (number | string)[]]

/**
 * Life of a mark in milliseconds: shorter than the life of windows of a minute or more, so that a step of the server's
 * clock that ends a window also ends the mark. After a silence of this length all sums are written again.
 */
export const markMs = 60_000

/**
 * KEYS[1] the mark of the gateway, KEYS[2…] windows. ARGV[1] the number of this call, 0 without a mark; ARGV[2] the
 * number that it relies on; ARGV[3] the writer; ARGV[4] the life of the mark (ms); then for each window the field, its
 * sum, and the rest of the window's life (ms). A late call must not hide a loss: it sets the mark only if the mark that
 * it relies on is there. The mark is written first: a Redis that is out of memory, or a replica, refuses that before
 * anything has changed. A mark never decreases: that would look like a loss. A key of another type under a window's name
 * counts nothing; a call with a mark replaces it and responds as after a loss, which it is. Numbers in Lua are doubles,
 * which are exact for two sums of 15 digits; longer sums are added as billions and the rest, up to 2⁶³-1.
 */
const writeSums = `
local function limbs(text)
  local high, low = tonumber(string.sub(text, 1, -10)) or 0, tonumber(string.sub(text, -9))
  if #text > 19 or not string.match(text, '^%d+$') or high == 9223372036 and low > 854775807 or high > 9223372036 then
    return 0, 0
  end
  return high, low
end
local function text_of(high, low)
  return high > 0 and string.format('%d%09d', high, low) or string.format('%d', low)
end
local function grow_large(own, total, sum)
  local own_high, own_low = limbs(own)
  local high, low = limbs(total)
  local sum_high, sum_low = limbs(sum)
  if sum_high < own_high or sum_high == own_high and sum_low <= own_low then
    return text_of(own_high, own_low), text_of(high, low), false
  end
  high, low = high + sum_high - own_high, low + sum_low - own_low
  local carry = math.floor(low / 1000000000)
  high, low = high + carry, low - carry * 1000000000
  if high == 9223372036 and low > 854775807 or high > 9223372036 then high, low = 9223372036, 854775807 end
  return sum, text_of(high, low), true
end
local mark = ARGV[1] ~= '0' and redis.pcall('GET', KEYS[1])
local number, nonce = string.match(type(mark) == 'string' and mark or '', '^(%d+) (.*)$')
local own = nonce == ARGV[3]
local is_late = own and tonumber(number) > tonumber(ARGV[1])
if ARGV[1] ~= '0' and not is_late and (ARGV[2] == '0' or own and tonumber(number) >= tonumber(ARGV[2])) then
  redis.call('SET', KEYS[1], ARGV[1] .. ' ' .. ARGV[3], 'PX', ARGV[4])
end
local answer = { tonumber(number or '0'), nonce or '' }
for i = 2, #KEYS do
  local field, sum = ARGV[3 * i - 1], ARGV[3 * i]
  local had = redis.pcall('HMGET', KEYS[i], field, '+')
  if had.err and not string.find(had.err, 'WRONGTYPE', 1, true) then return had end
  if had.err and ARGV[1] == '0' then
    sum = '0'
  elseif had.err then
    redis.call('DEL', KEYS[i])
    had, answer[1], answer[2] = {}, 0, ''
  end
  local own, total, grows = had[1] or '0', had[2] or '0', false
  if #own < 16 and #total < 16 and #sum < 16 then
    own, total = tonumber(own) or 0, tonumber(total) or 0
    grows = tonumber(sum) > own
    if grows then own, total = tonumber(sum), total + sum - own end
  else
    own, total, grows = grow_large(own, total, sum)
  end
  if grows then
    redis.call('HSET', KEYS[i], field, sum, '+', type(total) == 'number' and string.format('%d', total) or total)
    if not had[2] then redis.call('PEXPIRE', KEYS[i], ARGV[3 * i + 1]) end
  end
  answer[2 * i - 1], answer[2 * i] = own, total
end
return answer
`

/** KEYS windows. Returns for each the names and sums of its fields, as one text: `3fk2x0qa 120 + 120`. */
const readSums = `
local answer = {}
for i, key in ipairs(KEYS) do
  local found, parts = redis.pcall('HGETALL', key), {}
  if found.err and not string.find(found.err, 'WRONGTYPE', 1, true) then return found end
  for at = 1, found.err and 0 or #found, 2 do
    if tonumber(found[at + 1]) and not string.find(found[at], ' ', 1, true) then
      parts[#parts + 1] = found[at] .. ' ' .. found[at + 1]
    end
  end
  answer[i] = table.concat(parts, ' ')
end
return answer
`

/**
 * The use that versions before per-gateway sums had counted. KEYS for each counter its key and its note's key; ARGV the
 * windows that are read. Returns the use of each counter, which counts in one window only: the note names that window,
 * and expires with it.
 */
const oldSums = `
local answer = {}
for i = 1, #ARGV do
  local key, note = KEYS[2 * i - 1], KEYS[2 * i]
  local had = redis.pcall('GET', key)
  local sum = type(had) == 'string' and tonumber(had) or 0
  if sum > 0 then
    local left = math.max(1, redis.call('PTTL', key))
    if not redis.call('SET', note, ARGV[i], 'PX', left, 'NX') and redis.call('GET', note) ~= ARGV[i] then sum = 0 end
  end
  answer[i] = sum
end
return answer
`

export const sumScripts = { writeSums, readSums, oldSums }
