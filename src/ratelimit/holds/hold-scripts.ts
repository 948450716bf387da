/**
 * Admission of requests, in Lua: one call for all limits of a request that have one subject, over the same hashes as the
 * sums of gateways. Holds are for requests in progress, sums for ended ones, so one rule covers limits on tokens, on
 * requests and on concurrency: used + held + asked <= limit.
 *
 * The sums of the open holds of a subject, such as a subscription's user, are one hash, with a field for each counter:
 * count, mean, variance, output and maximum use. A field's name ends with its window, so that a hold counts in the
 * window that admitted it; the field of a hold that binds every window names none. The field `!` is the time until
 * which a hold may be released because the request is refused for another subject. A second hash has each open hold by
 * id, a sorted set the ends of their leases.
 */

import { ceilingShare, deviations, sharedError } from '../rules/estimates/admit.ts'
import { firstOutputP99, maxHold, maxVariance } from '../rules/estimates/held-amounts.ts'
import { holdLeaseMs } from '../rules/hold.ts'

/** Keys, then arguments. */
export interface HoldCommands {
  takeHold(keys: readonly string[], args: readonly (string | number)[]): Promise<HoldReply>
  renewHold(keys: readonly string[], args: readonly (string | number)[]): Promise<unknown>
  releaseHolds(keys: readonly string[], args: readonly (string | number)[]): Promise<unknown>
}

/**
 * `repeated`: the request had its hold before. `open`: open requests of the counter with the most. Then for each
 * counter the amounts used (text beyond 15 digits) and held; and, if there are other subjects, the request's own part of
 * the latter.
 */
export type HoldReply = readonly [
  outcome: string,
  ceiling: number,
  open: number,
  ...figures: (number | string)[],
]

/**
 * The three keys are there together, or none is: without one, holds in the others would never end, and what somebody else
 * has put under their names would make every call fail. The places of a hold are the fields of the sums that contain it:
 * `each_place` visits them with its amounts there, which follow the name, or else are the hold's tokens; askers are
 * between the names, with a question mark, with which no name begins. `keep` is for longer than any lease, since leases
 * may differ.
 */
const common = `
local found = ''
for i = 1, 3 do found = found .. redis.call('TYPE', KEYS[i]).ok end
if found ~= 'hashhashzset' and found ~= 'nonenonenone' then redis.call('DEL', KEYS[1], KEYS[2], KEYS[3]) end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function text(number) return string.format('%d', number) end
local function sums_of(name)
  local count, mean, variance, output, most =
    string.match(redis.call('HGET', KEYS[1], name) or '', '^(%d+) (%d+) (%d+) (%d+) (%d+)$')
  return { count = tonumber(count or '0'), mean = tonumber(mean or '0'), variance = tonumber(variance or '0'),
    output = tonumber(output or '0'), most = tonumber(most or '0') }
end
local function change(name, sums, more, mean, variance, output, most)
  local count = sums.count + more
  if count <= 0 then return redis.call('HDEL', KEYS[1], name) end
  redis.call('HSET', KEYS[1], name, table.concat({ text(count), text(sums.mean + mean),
    text(sums.variance + variance), text(sums.output + output), text(sums.most + most) }, ' '))
end
local function parts_of(id)
  return string.match(redis.call('HGET', KEYS[2], id) or '', '^(%d+) (%d+) (%d+) (%d+) (%-?%d+)(.*)$')
end
local function each_place(id, visit)
  local mean, variance, output, most, _, names = parts_of(id)
  for place in string.gmatch(names or '', ' ([^ ?]%S*)') do
    if string.find(place, '=', 1, true) then
      visit(string.match(place, '^([^=]+)=(%d+),(%d+),(%d+),(%d+)'))
    else
      visit(place, mean, variance, output, most)
    end
  end
  return names
end
local function drop(id)
  local known = each_place(id, function(name, mean, variance, output, most)
    change(name, sums_of(name), -1, -mean, -variance, -output, -most)
  end)
  if not known then return end
  redis.call('HDEL', KEYS[2], id)
  redis.call('ZREM', KEYS[3], id)
end
local function spread(per_input, input_variance, per_output, output_variance, grain)
  local variance = per_input ^ 2 * input_variance + per_output ^ 2 * output_variance
  return math.min(${maxVariance}, math.ceil(variance / grain ^ 2))
end
local function keep()
  for i = 1, 3 do redis.call('PEXPIRE', KEYS[i], ${2 * holdLeaseMs}) end
end
for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', text(now), 'LIMIT', 0, 64)) do drop(id) end
`

/**
 * KEYS[1] the sums of open holds, KEYS[2] the holds, KEYS[3] their leases, KEYS[4…] windows; for concurrency a
 * placeholder. ARGV[1] the id, empty to hold nothing; ARGV[2] the lease (ms); ARGV[3] to ARGV[10] expected input, its
 * variance, output, its variance, floor, output beyond the room (negative: several answers), least, worst (-1:
 * unknown); ARGV[11] the overshoot; ARGV[12] '1' if a ceiling can be set; ARGV[13] the asker, or empty; ARGV[14] the
 * gateway; ARGV[15] how long the call for another subject may still be refused (ms; 0: there is none).
 *
 * Then for each window its kind (tokens, requests, concurrency), limit, name in the sums, and the use by others and by
 * the gateway itself as the caller knows it, which this server may have lost or not have yet; then ids of ended holds,
 * whose responses are in those figures. These holds remain for other processes, which may not know the responses, until
 * the sums are written; an id followed by more text is dropped at once. The arithmetic of tokens is as in
 * ratelimit/rules/estimates/admit.ts.
 */
const takeHold = `
${common}
local can_limit_output = ARGV[12] == '1'
local input, input_variance, output, output_variance, floor, beyond, least, worst, overshoot =
  tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7]),
  tonumber(ARGV[8]), tonumber(ARGV[9]), tonumber(ARGV[10]), tonumber(ARGV[11])
if worst < 0 then worst = math.huge end
local several = beyond < 0
beyond = math.abs(beyond)
local outcome, most_open, places = 'held', 0, {}
local function refuse(with) if outcome ~= 'spent' then outcome = with end end
local unsettled = tonumber(ARGV[15])
local ended = {}
for i = 5 * #KEYS + 1, #ARGV do
  local id, for_all = string.match(ARGV[i], '^(%S+) ?(.*)$')
  -- The same id again is another request.
  if for_all ~= '' or id == ARGV[1] then drop(id) end
  each_place(id, function(name, mean, variance, output, most)
    local sums = ended[name] or { count = 0, mean = 0, variance = 0, output = 0, most = 0 }
    ended[name] = { count = sums.count + 1, mean = sums.mean + mean, variance = sums.variance + variance,
      output = sums.output + output, most = sums.most + most }
  end)
end
local function without_ended(name, sums)
  local less = ended[name]
  if not less then return sums end
  return { count = sums.count - less.count, mean = sums.mean - less.mean, variance = sums.variance - less.variance,
    output = sums.output - less.output, most = sums.most - less.most }
end
-- Returns what is used, whether that reaches the limit, whether the caller knows less than is written, and what is
-- left. Whole numbers of more than 15 digits are text, because doubles may not be exact.
local function exactly(total, own, others, known, limit)
  local function limbs(written) return tonumber(string.sub(written, 1, -10)) or 0, tonumber(string.sub(written, -9)) end
  local function sum_of(one, other, sign)
    local high, low = limbs(one)
    local more_high, more_low = limbs(other)
    high, low = high + sign * more_high, low + sign * more_low
    local carry = math.floor(low / 1e9)
    high, low = high + carry, low - carry * 1e9
    if high < 0 then return '0' end
    return high > 0 and string.format('%d%09d', high, low) or text(low)
  end
  local function digits(written) return #written < 20 and string.match(written, '^%d+$') or '0' end
  local function is_less(one, other) return #one < #other or #one == #other and one < other end
  local function greatest(one, other) return is_less(one, other) and other or one end
  total, own = digits(total), digits(own)
  local used = sum_of(greatest(others, sum_of(total, own, -1)), greatest(known, own), 1)
  return used, not is_less(used, limit), is_less(known, own), tonumber(sum_of(limit, used, -1))
end
local own_input, needed = math.ceil(input), math.max(floor, least)
local plain = { base = 0, per_input = 1, most_input = own_input, per_output = 1, grain = 1 }
local function outputs_in(of, amount)
  return of.per_output == 0 and math.huge or math.floor((amount - of.most_input) / of.per_output)
end
-- The output that a limit allows the request.
local function ceiling_in(each, whole)
  if not can_limit_output then return math.ceil(needed) end
  local of, enough = each.of, needed
  if each.sums.count == 0 then
    local unused, room = outputs_in(of, whole), outputs_in(of, each.room)
    local beyond = math.min(math.ceil(beyond), math.max(${firstOutputP99}, unused))
    enough = math.min(enough, several and unused > 0 and room or math.max(beyond, room))
  end
  return math.max(math.ceil(enough), outputs_in(of, math.min(each.room * ${ceilingShare}, ${maxHold})))
end
local ceiling = can_limit_output and worst or math.min(worst, math.ceil(needed))
for i = 4, #KEYS do
  local at = 5 * i - 4
  local kind, limit, name, of = ARGV[at], tonumber(ARGV[at + 1]), ARGV[at + 2], plain
  if string.sub(kind, 1, 7) == 'tokens ' then
    local base, per_input, most_per_input, per_output, grain = string.match(kind, ' (%S+) (%S+) (%S+) (%S+) (%S+)$')
    kind, of = 'tokens', { base = tonumber(base), per_input = tonumber(per_input), per_output = tonumber(per_output),
      grain = tonumber(grain), most_input = math.ceil(base + most_per_input * own_input),
      kept = per_input .. ',' .. per_output .. ',' .. grain }
  end
  local all = sums_of(name)
  local sums = without_ended(name, all)
  -- With all its fields, because adding one later reallocates the table.
  local each = { kind = kind, left = false, name = name, of = of, all = all, sums = sums, used = 0, in_use = sums.count, room = 0 }
  if kind ~= 'concurrency' then
    -- A key of another type under a window's name counts nothing.
    local found = redis.pcall('HMGET', KEYS[i], '+', ARGV[14])
    local total, own, others, known = found[1] or '0', found[2] or '0', ARGV[at + 3], ARGV[at + 4]
    if #total > 15 or #own > 15 or #others > 15 or #known > 15 then
      local has_more
      each.exact, each.is_spent, has_more, each.left = exactly(total, own, others, known, ARGV[at + 1])
      each.used = tonumber(each.exact)
      each.in_use = each.used + each.in_use
      if has_more then each.sums = all end
    else
      total, own, known = tonumber(total) or 0, tonumber(own) or 0, tonumber(known)
      others = math.max(tonumber(others), total - own)
      each.used = others + math.max(known, own)
      -- The known and the written figures may each lack responses of the other; neither counts a request twice.
      each.in_use = others + math.max(known + each.sums.count, own + all.count)
      if own > known then each.sums = all end
    end
  end
  if kind == 'tokens' then
    if each.is_spent or each.used >= limit and not each.exact then refuse('spent') end
    local whole = math.floor(limit * (1 + overshoot))
    each.left = each.left or limit - each.used
    each.room = each.left + (whole - limit) - each.sums.most
    ceiling = math.min(ceiling, ceiling_in(each, whole))
  elseif each.in_use >= limit then
    -- An open request stays counted after its end, unless it is released in a moment, refused for another subject;
    -- then its place becomes free.
    local stays = kind == 'requests' and
      (each.used >= limit or now >= tonumber(redis.call('HGET', KEYS[1], '!') or '0'))
    if not stays then most_open = math.max(most_open, each.sums.count) end
    refuse(stays and 'spent' or 'busy')
  end
  if kind ~= 'requests' then most_open = math.max(most_open, each.sums.count) end
  places[#places + 1] = each
end
if can_limit_output and ceiling < least then refuse('busy') end
local bound = math.min(ceiling, ${maxHold})
local expects = math.min(math.ceil(output), bound)
local function amounts_in(of)
  local own = math.ceil(of.per_output * expects)
  return { mean = math.ceil(of.base + of.per_input * own_input) + own, output = own,
    variance = spread(of.per_input, input_variance, of.per_output, output_variance, of.grain),
    most = of.most_input + math.ceil(of.per_output * bound) }
end
local tokens = amounts_in(plain)
for _, each in ipairs(places) do
  local own, sums = each.of == plain and tokens or amounts_in(each.of), each.sums
  each.own = own
  if each.kind == 'tokens' then
    local alone = sums.count == 0
    -- Without a ceiling only their number bounds several answers.
    if own.most > each.room and (not alone or several and not can_limit_output) then refuse('busy') end
    local error = ${sharedError} * (sums.output + own.output)
    local deviation = math.sqrt(each.of.grain ^ 2 * (sums.variance + own.variance) + error ^ 2)
    if not alone and sums.mean + own.mean + ${deviations} * deviation > each.left then refuse('busy') end
  end
end
local known = ARGV[1] ~= '' and redis.call('HGET', KEYS[2], ARGV[1])
local asking = ARGV[13] ~= '' and ' ?' .. ARGV[13] or ''
local more = 0
if known then
  if asking ~= '' and not string.find(known .. ' ', asking .. ' ', 1, true) then
    redis.call('HSET', KEYS[2], ARGV[1], known .. asking)
  end
  outcome, ceiling = 'repeated', tonumber(string.match(known, '^%d+ %d+ %d+ %d+ (%-?%d+)'))
elseif outcome == 'held' then
  if not can_limit_output or ceiling >= ${maxHold} then ceiling = -1 end
  if ARGV[1] ~= '' then
    more = 1
    local parts = { text(tokens.mean), text(tokens.variance), text(tokens.output), text(tokens.most), text(ceiling) }
    for _, each in ipairs(places) do
      local own = each.own
      change(each.name, each.all, 1, own.mean, own.variance, own.output, own.most)
      parts[#parts + 1] = each.of == plain and each.name or each.name .. '=' .. table.concat({ text(own.mean),
        text(own.variance), text(own.output), text(own.most), each.of.kept }, ',')
    end
    redis.call('HSET', KEYS[2], ARGV[1], table.concat(parts, ' ') .. asking)
    redis.call('ZADD', KEYS[3], text(now + ARGV[2]), ARGV[1])
    if unsettled > 0 then redis.call('HSET', KEYS[1], '!', text(now + unsettled)) end
    keep()
  end
end
local answer = { outcome, ceiling, most_open }
for _, each in ipairs(places) do
  local is_counted = each.kind ~= 'tokens'
  answer[#answer + 1] = is_counted and each.in_use + more or each.exact or each.used
  answer[#answer + 1] = is_counted and 0 or each.sums.mean + more * each.own.mean
end
if unsettled > 0 then
  for _, each in ipairs(places) do answer[#answer + 1] = more * (each.kind == 'tokens' and each.own.mean or 1) end
end
return answer
`

/**
 * KEYS[1] to KEYS[3] as in `takeHold`; ARGV[1] the id, ARGV[2] its lease from now on (ms), ARGV[3] and ARGV[4] the
 * currently expected output and its variance; ARGV[5] the variance of the input.
 */
const renewHold = `
${common}
local mean, variance, output, most, ceiling, names = parts_of(ARGV[1])
if not mean then return 0 end
local grown = math.max(tonumber(output), math.min(math.ceil(tonumber(ARGV[3])), most - mean + output))
local function spread_of(per_input, per_output, grain)
  return spread(tonumber(per_input), tonumber(ARGV[5]), tonumber(per_output), tonumber(ARGV[4]), tonumber(grain))
end
names = string.gsub(names, ' ([^ ?]%S*)', function(place)
  local name, m, v, o, c, of = string.match(place, '^([^=]+)=(%d+),(%d+),(%d+),(%d+),(%S+)$')
  if not name then
    change(place, sums_of(place), 0, grown - output, spread_of(1, 1, 1) - variance, grown - output, 0)
    return nil
  end
  local per_input, per_output, grain = string.match(of, '^(.*),(.*),(.*)$')
  local own, wide = math.ceil(tonumber(per_output) * grown), spread_of(per_input, per_output, grain)
  change(name, sums_of(name), 0, own - o, wide - v, own - o, 0)
  return ' ' .. name .. '=' .. table.concat({ text(m - o + own), text(wide), text(own), c, of }, ',')
end)
redis.call('HSET', KEYS[2], ARGV[1], table.concat({ text(mean - output + grown), text(spread_of(1, 1, 1)),
  text(grown), most, ceiling }, ' ') .. names)
redis.call('ZADD', KEYS[3], text(now + ARGV[2]), ARGV[1])
keep()
return 1
`

/**
 * KEYS[1] to KEYS[3] as in `takeHold`; ARGV[1…] the ids of holds that end. With a space and an asker appended, a hold ends
 * only if no other asker is left; without, it is sent in one transaction with the sums that have its response.
 */
const releaseHolds = `
${common}
for _, each in ipairs(ARGV) do
  local id, asker = string.match(each, '^(%S+) ?(%S*)$')
  if asker == '' then
    drop(id)
  else
    local known = redis.call('HGET', KEYS[2], id)
    local first, last = string.find((known or '') .. ' ', ' ?' .. asker .. ' ', 1, true)
    if first then
      known = string.sub(known, 1, first - 1) .. string.sub(known, last)
      if string.find(known, ' ?', 1, true) then redis.call('HSET', KEYS[2], id, known) else drop(id) end
    end
  end
end
return 0
`

export const holdScripts = { takeHold, renewHold, releaseHolds }
