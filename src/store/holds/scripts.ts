/**
 * Redis's operations on holds in Lua, each one call for all limits of a request. The sums of a
 * subscription's user are one hash, with a field for each counter: the end of the window, then count, mean, variance, output and ceiling of its open holds. A second hash has each
 * open hold by id, with the windows that it binds and who has asked for it; a sorted set has the ends of their leases.
 */

import { ceilingShare, deviations, sharedError } from '../../core/admission/admit.ts'
import { firstFloor } from '../../core/admission/estimator.ts'
import { mostVariance } from '../../core/admission/hold.ts'
import { leaseMs } from '../holds.ts'

/** Keys, then arguments. */
export interface HoldCommands {
  hold(keys: readonly string[], args: readonly (string | number)[]): Promise<HeldAnswer>
  release(keys: readonly string[], args: readonly (string | number)[]): Promise<unknown>
  renew(keys: readonly string[], args: readonly (string | number)[]): Promise<unknown>
}

/** `repeated`: held before. `open`: requests of the counter that has most. Then for each counter: tokens used, milliseconds left of its window (0: none), tokens held. */
export type HeldAnswer = readonly [outcome: string, cap: number, open: number, ...figures: number[]]

const common = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function text(number) return string.format('%d', number) end
local function sums_of(counter)
  local ends, count, mean, variance, output, ceiling =
    string.match(redis.call('HGET', KEYS[1], counter) or '', '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+)$')
  if not ends then return nil end
  return { ends = tonumber(ends), count = tonumber(count), mean = tonumber(mean),
    variance = tonumber(variance), output = tonumber(output), ceiling = tonumber(ceiling) }
end
local function change(counter, sums, more, mean, variance, output, ceiling)
  local count = sums.count + more
  if count <= 0 then return redis.call('HDEL', KEYS[1], counter) end
  redis.call('HSET', KEYS[1], counter, table.concat({ text(sums.ends), text(count),
    text(sums.mean + mean), text(sums.variance + variance),
    text(sums.output + output), text(sums.ceiling + ceiling) }, ' '))
end
local function change_all(windows, ...)
  for counter, ends in string.gmatch(windows, '(%S+):(%d+)') do
    local sums = sums_of(counter)
    if sums and sums.ends == tonumber(ends) then change(counter, sums, ...) end
  end
end
local function parts_of(id)
  return string.match(redis.call('HGET', KEYS[2], id) or '', '^(%d+) (%d+) (%d+) (%d+) (%-?%d+)(.*)$')
end
local function drop(id)
  local mean, variance, output, ceiling, _, windows = parts_of(id)
  if not mean then return end
  redis.call('HDEL', KEYS[2], id)
  redis.call('ZREM', KEYS[3], id)
  change_all(windows, -1, -mean, -variance, -output, -ceiling)
end
-- Longer than any lease, which may differ.
local function keep()
  for i = 1, 3 do redis.call('PEXPIRE', KEYS[i], ${2 * leaseMs}) end
end
for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', text(now), 'LIMIT', 0, 64)) do drop(id) end
`

/**
 * KEYS[1] the sums, KEYS[2] the open holds, KEYS[3] their leases, KEYS[4…] counters. ARGV[1] the id,
 * empty to hold nothing; ARGV[2] the lease (ms); ARGV[3] '1' if it binds every window; ARGV[4] to
 * ARGV[11] expected input, its variance, output, its variance, floor, beyond its room (below 0: of several answers), least, worst (-1: unknown); ARGV[12]
 * the overshoot; ARGV[13] '1' if it can have a ceiling; ARGV[14] how many of the counters are of tokens,
 * the first ones; then for each counter its limit, the length of its window (ms; 0: it is one of open requests), and its name in the sums; at last who asks, or nothing. The arithmetic is that of core/admission/admit.ts.
 */
export const holdScript = `
${common}
local carries, can_cap = ARGV[3] == '1', ARGV[13] == '1'
local input, input_variance, output, output_variance, floor, beyond, least, worst, overshoot =
  tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8]),
  tonumber(ARGV[9]), tonumber(ARGV[10]), tonumber(ARGV[11]), tonumber(ARGV[12])
if worst < 0 then worst = math.huge end
local several = beyond < 0
beyond = math.abs(beyond)
local outcome, open, room, unused, rooms, taken = 'held', 0, math.huge, math.huge, {}, {}
local function read(i)
  local used, left = redis.pcall('GET', KEYS[i]), redis.call('PTTL', KEYS[i])
  -- What somebody else has put under a counter's name counts for nothing.
  return left > 0 and type(used) ~= 'table' and tonumber(used or '0') or 0, left
end
for i = 4, 3 + ARGV[14] do
  local limit, span, counter = tonumber(ARGV[3 * i + 3]), ARGV[3 * i + 4], ARGV[3 * i + 5]
  local used, left = read(i)
  local sums = sums_of(counter)
  -- Another window ends at least a whole one later; restored ones may end a little earlier.
  if sums and not carries and (left <= 0 or now + left > sums.ends + span / 2) then sums = nil end
  sums = sums or { ends = carries and 0 or now + left, count = 0, mean = 0, variance = 0, output = 0, ceiling = 0 }
  rooms[#rooms + 1] = { key = KEYS[i], counter = counter, limit = limit, span = span, used = used, left = left, sums = sums }
  if used >= limit then outcome = 'spent' end
  open = math.max(open, sums.count)
  local whole = math.floor(limit * (1 + overshoot))
  room, unused = math.min(room, whole - used - sums.ceiling), math.min(unused, whole)
end
local most = open
for i = 4 + ARGV[14], #KEYS do
  local limit, span, counter = tonumber(ARGV[3 * i + 3]), ARGV[3 * i + 4], ARGV[3 * i + 5]
  local each = { key = KEYS[i], counter = counter, span = span }
  if span == '0' then
    each.sums = sums_of(counter) or { ends = 0, count = 0, mean = 0, variance = 0, output = 0, ceiling = 0 }
    each.used, each.left = each.sums.count, 0
    most = math.max(most, each.used)
    if each.used >= limit and outcome == 'held' then outcome = 'busy' end
  else
    each.used, each.left = read(i)
    if each.used >= limit then outcome = 'spent' end
  end
  taken[#taken + 1] = each
end
local alone = open == 0
local share = can_cap and room * ${ceilingShare} or 0
local needed = math.max(floor, least)
if alone and can_cap then
  local own = math.ceil(input)
  beyond = math.min(math.ceil(beyond), math.max(${firstFloor}, unused - own))
  needed = math.min(needed, several and own < unused and room - own or math.max(beyond, room - own))
end
local cap = math.min(worst, math.max(math.ceil(needed), math.floor(share - input)))
local expects = math.min(math.ceil(output), cap)
local mean, variance, ceiling =
  math.ceil(input) + expects, math.min(${mostVariance}, math.ceil(input_variance + output_variance)), math.ceil(input) + cap
if can_cap and cap < least and outcome == 'held' then outcome = 'busy' end
if outcome == 'held' and ceiling > room and (not alone or several and not can_cap) then outcome = 'busy' end
if outcome == 'held' and not alone then
  for _, each in ipairs(rooms) do
    local deviation = math.sqrt(each.sums.variance + variance + (${sharedError} * (each.sums.output + expects)) ^ 2)
    if each.used + each.sums.mean + mean + ${deviations} * deviation > each.limit then outcome = 'busy' end
  end
end
local known = ARGV[1] ~= '' and redis.call('HGET', KEYS[2], ARGV[1])
local asker = ARGV[3 * #KEYS + 6]
-- In the form of a window that no sums have.
local asking = asker ~= '' and ' ?' .. asker .. ':0' or ''
if known then
  if not string.find(known, asking, 1, true) then redis.call('HSET', KEYS[2], ARGV[1], known .. asking) end
  outcome, cap = 'repeated', tonumber(string.match(known, '^%d+ %d+ %d+ %d+ (%-?%d+)'))
  mean = 0
elseif outcome == 'held' then
  if not can_cap then cap = -1 end
  if ARGV[1] ~= '' then
    local parts = { text(mean), text(variance), text(expects), text(ceiling), text(cap) }
    for _, each in ipairs(rooms) do
      if not carries and each.left <= 0 then
        redis.call('SET', each.key, '0', 'PX', each.span)
        each.left = tonumber(each.span)
        each.sums.ends = now + each.left
      end
      change(each.counter, each.sums, 1, mean, variance, expects, ceiling)
      parts[#parts + 1] = each.counter .. ':' .. text(each.sums.ends)
    end
    for _, each in ipairs(taken) do
      if each.sums then
        change(each.counter, each.sums, 1, mean, variance, expects, ceiling)
        parts[#parts + 1] = each.counter .. ':0'
      elseif each.left <= 0 then
        redis.call('SET', each.key, '1', 'PX', each.span)
        each.left = tonumber(each.span)
      else
        redis.pcall('INCR', each.key)
      end
      each.used = each.used + 1
    end
    redis.call('HSET', KEYS[2], ARGV[1], table.concat(parts, ' ') .. asking)
    redis.call('ZADD', KEYS[3], text(now + ARGV[2]), ARGV[1])
    keep()
  end
end
local answer = { outcome, cap, most }
for _, each in ipairs(rooms) do
  local own = outcome == 'held' and ARGV[1] ~= '' and mean or 0
  answer[#answer + 1] = each.used
  answer[#answer + 1] = math.max(0, each.left)
  answer[#answer + 1] = each.sums.mean + own
end
for _, each in ipairs(taken) do
  answer[#answer + 1] = each.used
  answer[#answer + 1] = math.max(0, each.left)
  answer[#answer + 1] = 0
end
return answer
`

/** The same three keys; ARGV[1] the id, ARGV[2] its lease from now on (ms), ARGV[3] and ARGV[4] the output that is now expected, and its variance. */
export const renewScript = `
${common}
local mean, variance, output, ceiling, cap, windows = parts_of(ARGV[1])
if not mean then return 0 end
local grown = math.max(tonumber(output), math.min(math.ceil(tonumber(ARGV[3])), ceiling - mean + output))
local spread = math.min(${mostVariance}, math.ceil(tonumber(ARGV[4])))
redis.call('HSET', KEYS[2], ARGV[1], table.concat({ text(mean - output + grown), text(spread), text(grown), ceiling, cap }, ' ') .. windows)
redis.call('ZADD', KEYS[3], text(now + ARGV[2]), ARGV[1])
keep()
change_all(windows, 0, grown - output, spread - variance, grown - output, 0)
return 1
`

/**
 * The same three keys; ARGV[1…] the ids of holds that end; with a space and an asker behind it, only if
 * nobody else has asked for it.
 */
export const releaseScript = `
${common}
for _, each in ipairs(ARGV) do
  local id, asker = string.match(each, '^(%S+) ?(%S*)$')
  if asker == '' then
    drop(id)
  else
    local known = redis.call('HGET', KEYS[2], id) or ''
    local first, last = string.find(known, ' ?' .. asker .. ':0', 1, true)
    if first then
      known = string.sub(known, 1, first - 1) .. string.sub(known, last + 1)
      if string.find(known, ' ?', 1, true) then redis.call('HSET', KEYS[2], id, known) else drop(id) end
    end
  end
end
return 0
`
