/**
 * Redis's operations in Lua, so that each is atomic. A counter is a plain integer that expires at
 * the end of its window: Redis decides when windows end, and ended counters disappear by
 * themselves.
 */

import { resetSlackMs } from '../../counters.ts'

/**
 * Redis's time, the fields and values of its store hash, then for each counter the tokens used and
 * milliseconds left (-2: no window). Without the counters if the store is not the expected one.
 */
export type CounterAnswer = readonly [time: number, store: readonly string[], ...sums: number[]]

/**
 * The same, and for a batch with reports the places of those that were counted, separated by
 * commas.
 */
export type AddAnswer = CounterAnswer | readonly [...CounterAnswer, counted: string]

/** Runs a script for these keys, with these arguments. */
export type Script<Answer> = (
  keys: readonly string[],
  args: readonly (string | number)[],
) => Promise<Answer>

export interface CounterCommands {
  readonly add: Script<AddAnswer>
  readonly read: Script<CounterAnswer>
  readonly restore: Script<CounterAnswer>
  /** 1 if the key is the owner's for these milliseconds, 0 if it is another's. */
  readonly claim: Script<number>
  readonly reset: Script<unknown>
  /** Removes the keys, which share a hash tag. */
  forget(keys: readonly string[]): Promise<unknown>
  /** A new number after each new connection, which may be to another server. */
  readonly session: number
}

/** The beginning of all three scripts: Redis's time, and the delay since the command was sent. */
const timing = (sentAt: string): string => `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
-- What was held back on its way must not open a window that ends later than it should.
local late = ${sentAt} == '0' and 0 or math.max(0, now - ${sentAt})
-- What somebody else has put under a counter's name counts for nothing.
local function whole(value) return type(value) ~= 'table' and tonumber(value or '0') or 0 end`

/**
 * Sets `epoch` to a new epoch of the store KEYS[1]: Redis's time (µs), but after the epoch `last`
 * (empty for none) even if Redis's clock is behind. Then `since` says when it began (ms).
 */
const renewal = (last: string): string => `
  epoch = time[1] * 1000000 + time[2]
  if epoch > (tonumber(${last}) or 0) then
    redis.call('HDEL', KEYS[1], 'since')
  else
    epoch = ${last} + 1
    redis.call('HSET', KEYS[1], 'since', string.format('%d', now))
  end
  epoch = string.format('%d', epoch)
  redis.call('HSET', KEYS[1], 'epoch', epoch)`

/**
 * Gives a store a new epoch if it is an older copy: it has the epoch that the sender knows but a
 * lower mark than it had, or an earlier epoch. KEYS[1] the store hash, KEYS[2] the mark of the
 * sender.
 */
const identity = (known: string, least: string): string => `
local mark, told = string.match(redis.call('GET', KEYS[2]) or '0', '^(%d+) ?(.*)$')
mark = tonumber(mark)
local epoch = redis.call('HGET', KEYS[1], 'epoch')
local same = epoch == ${known}
if same and mark < tonumber(${least})
  or not same and epoch and ${known} ~= '' and tonumber(epoch) < tonumber(${known}) then
${renewal(known)}
  same = false
end`

/**
 * KEYS[1] the store hash, KEYS[2] the mark of the sender, KEYS[3…] counters, then sets of counted
 * responses. ARGV[1] number of the batch, ARGV[2] the least number of the mark, ARGV[3] how long
 * the mark is kept (ms), ARGV[4] when the batch was sent by Redis's own clock (ms, 0: unknown),
 * ARGV[5] the epoch that the batch is for, ARGV[6] the journal's name, ARGV[7] the number of
 * counters; then for each counter: the tokens to add, and the rest of a window that these tokens
 * open at that time (ms). With reports three more: how long a set is kept (ms); until when the
 * responses ended, by the gateway's clock (ms); a JSON array of reports, each with: its place in
 * the batch, from 0; its member; the number of its set, and of another to look into (0: none);
 * tokens; when it ended, and how long ago (ms); the number of counters; for each the number of the counter and the rest of
 * a window that the response opens (ms). Numbers count from 1.
 *
 * A sender has one batch in flight, with increasing numbers. A batch at or below the mark has been
 * added before: its response was lost, or the network delivered it twice. Then the script only
 * reads, and returns again which reports were counted, which is stored after the mark's number. The
 * mark is written first: a Redis that is out of memory or a replica refuses that, and nothing has
 * changed.
 */
export const addScript = `
${timing('ARGV[4]')}
${identity('ARGV[5]', 'ARGV[2]')}
if not same then return { now, redis.call('HGETALL', KEYS[1]) } end
local fresh = tonumber(ARGV[1]) > mark
if fresh then redis.call('SET', KEYS[2], ARGV[1], 'PX', ARGV[3]) end
local counters = tonumber(ARGV[7])
local last = 7 + 2 * counters
local reported, opened, counted = {}, {}, {}
if fresh and ARGV[last + 3] then
  local reports, at = cjson.decode(ARGV[last + 3]), 1
  local cut = tonumber(redis.call('HGET', KEYS[1], 'cut:' .. ARGV[6]) or '-1')
  local till = 'until:' .. ARGV[6]
  if tonumber(ARGV[last + 2]) > tonumber(redis.call('HGET', KEYS[1], till) or '-1') then
    redis.call('HSET', KEYS[1], till, ARGV[last + 2])
  end
  local size = #reports
  local resets = redis.call('HEXISTS', KEYS[1], 'resets') == 1
  -- Whether a counter was reset after a response had ended. A clock that has stepped back since would say so of all.
  local function undone(counter, ended, ago)
    if not resets then return false end
    local record = string.gsub(KEYS[counter + 2], '}:', '}:reset:', 1)
    local at = redis.pcall('GET', record)
    at = type(at) == 'string' and tonumber(at) or -1
    return ended <= at and at <= now + ${resetSlackMs} and now - late - ago <= at + ${resetSlackMs}
  end
  while at < size do
    local place, member, own, other, tokens, ended, ago = unpack(reports, at, at + 6)
    local first = at + 8
    at = first + 2 * reports[at + 7]
    -- The sums that a lost store had may hold what ended by the cut.
    local seen = ended <= cut
    if not seen and other > 0 then
      seen = redis.pcall('SISMEMBER', KEYS[2 + counters + other], member) == 1
    end
    if not seen and redis.pcall('SADD', KEYS[2 + counters + own], member) ~= 0 then
      counted[#counted + 1] = place
      for i = first, at - 1, 2 do
        local counter, opens = reports[i], reports[i + 1] - late
        if opens > 0 and not undone(counter, ended, ago) then
          reported[counter] = (reported[counter] or 0) + tokens
          opened[counter] = opened[counter] or opens
        end
      end
    end
  end
  for i = counters + 3, #KEYS do
    if redis.call('PTTL', KEYS[i]) == -1 then redis.call('PEXPIRE', KEYS[i], ARGV[last + 1]) end
  end
  told = table.concat(counted, ',')
  redis.call('SET', KEYS[2], ARGV[1] .. ' ' .. told, 'PX', ARGV[3])
end
local answer = { now, redis.call('HGETALL', KEYS[1]) }
for i = 1, counters do
  local key, tokens, more = KEYS[i + 2], ARGV[6 + 2 * i], reported[i]
  local left = redis.call('PTTL', key)
  local used
  if left == -2 then
    used = 0
    local begin, opens = tokens, ARGV[7 + 2 * i] - late
    if opens <= 0 or not fresh then begin = '0' end
    if more then
      if begin == '0' then opens = opened[i] end
      begin = string.format('%d', begin + more)
    end
    if begin ~= '0' then
      used, left = begin, opens
      redis.call('SET', key, used, 'PX', string.format('%d', left))
    end
  elseif fresh and (more or tokens ~= '0') then
    -- pcall: what somebody else has put there must not stop the other counters.
    used = redis.pcall('INCRBY', key, more and string.format('%d', tokens + more) or tokens)
  else
    used = redis.pcall('GET', key)
  end
  answer[2 * i + 1] = whole(used)
  answer[2 * i + 2] = left
end
if ARGV[last + 3] then answer[2 * counters + 3] = told end
return answer
`

/**
 * KEYS[1] the store hash, KEYS[2] the mark of the sender, KEYS[3…] counters. ARGV[1] the least
 * number of the mark, ARGV[2] the epoch in which that holds.
 */
export const readScript = `
${timing("'0'")}
${identity('ARGV[2]', 'ARGV[1]')}
local answer = { now, redis.call('HGETALL', KEYS[1]) }
for i = 3, #KEYS do
  local left = redis.call('PTTL', KEYS[i])
  local used = left ~= -2 and redis.pcall('GET', KEYS[i]) or 0
  answer[2 * i - 3] = whole(used)
  answer[2 * i - 2] = left
end
return answer
`

/**
 * Restores what a process knows to a store that has lost its data (restore.ts explains why this is
 * correct), and gives a store without an epoch, or with an earlier one than the process knows, a new
 * one. KEYS[1] the store hash, KEYS[2] the mark of the sender, KEYS[3…] counters. ARGV[1] number of
 * the offer, counted with the batches, ARGV[2] how long the mark is kept (ms), ARGV[3] when it was
 * sent by Redis's clock (ms, 0: unknown), ARGV[4] the epoch that it is for, empty for any, ARGV[5]
 * how long a store is young (ms), ARGV[6] a JSON object: until when each journal was counted, and
 * under `reset:` and the key of its record, as of when a counter was reset, and under `reset:` alone until
 * when it knows of all resets; then for each counter: the rest of its window (ms); its last known tokens; its doubtful tokens, which a
 * known sum may or may not include.
 *
 * A counter's record holds, separated by spaces: the epoch that it is of; the highest known sum that
 * was accepted; the sum that the counter was given; whether there was none before (1 or 0). A record
 * of another epoch, or an older version's without one, counts for nothing. What follows these fields
 * belongs to later versions and is kept.
 */
export const restoreScript = `
${timing('ARGV[3]')}
local epoch = redis.call('HGET', KEYS[1], 'epoch')
if not epoch or ARGV[4] ~= '' and tonumber(epoch) < tonumber(ARGV[4]) then
${renewal('ARGV[4]')}
end
if ARGV[4] ~= '' and ARGV[4] ~= epoch then return { now, redis.call('HGETALL', KEYS[1]) } end
local fresh = tonumber(ARGV[1]) > tonumber(string.match(redis.call('GET', KEYS[2]) or '0', '^%d+'))
if fresh then redis.call('SET', KEYS[2], ARGV[1], 'PX', ARGV[2]) end
local since = redis.call('HGET', KEYS[1], 'since') or epoch / 1000
local young = now - since < tonumber(ARGV[5])
local believed = true
local function raise(field, to)
  if to > tonumber(redis.call('HGET', KEYS[1], field) or '-1') then
    redis.call('HSET', KEYS[1], field, string.format('%d', to))
  end
end
local function when(record)
  local at = redis.pcall('GET', record)
  return type(at) == 'string' and tonumber(at) or -1
end
local told = cjson.decode(ARGV[6])
for journal, ended in pairs(told) do
  if journal == 'reset:' then
    -- It is about all of them.
  elseif string.sub(journal, 1, 6) == 'reset:' then
    local record = string.sub(journal, 7)
    if ended > when(record) then
      redis.call('SET', record, string.format('%d', ended), 'PX', ARGV[2])
      -- What is there is of an older copy, or from a process that did not know of the reset.
      redis.call('DEL', (string.gsub(record, '}:reset:', '}:', 1)))
      redis.call('DEL', (string.gsub(record, '}:reset:', '}:restored:', 1)))
    end
    redis.call('HSETNX', KEYS[1], 'resets', 0)
  elseif young then
    raise('cut:' .. journal, ended)
    raise('until:' .. journal, ended)
  elseif ended > tonumber(redis.call('HGET', KEYS[1], 'cut:' .. journal) or '-1') then
    believed = false
  end
end
-- Whether the process does not know of a reset, so that its sum may be from before it.
local aware = redis.call('HEXISTS', KEYS[1], 'resets') == 1 and told['reset:']
local function outdated(key)
  if not aware then return false end
  local record = string.gsub(key, '}:', '}:reset:', 1)
  return when(record) > math.max(aware, told['reset:' .. record] or -1)
end
local answer = { now, redis.call('HGETALL', KEYS[1]) }
for i = 3, #KEYS do
  local key, at = KEYS[i], 3 * i - 2
  local opens, known, doubt = ARGV[at] - late, tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
  local used, left = redis.pcall('GET', key), redis.call('PTTL', key)
  if fresh and believed and opens > 0 and known + doubt > 0 and type(used) ~= 'table' and not outdated(key) then
    local has = whole(used)
    local record = string.gsub(key, '}:', '}:restored:', 1)
    local of, top, sum, empty, rest =
      string.match(redis.call('GET', record) or '', '^(%d+) (%d+) (%d+) ([01])(.*)$')
    -- That of an earlier epoch knows nothing of what was added between.
    if of ~= epoch then top, sum, empty = has, has, used and '0' or '1' end
    top, sum = tonumber(top), tonumber(sum)
    local should = sum
    if known + doubt > top then
      -- What was there before is of an older copy perhaps, and may hold what is in doubt.
      if empty == '1' then should = sum + doubt end
      should = math.max(should, known + doubt)
    end
    top = math.max(top, known)
    if should > sum then redis.pcall('INCRBY', key, string.format('%d', should - sum)) end
    if (left > opens or not used) and redis.call('EXISTS', key) == 1 then
      redis.call('PEXPIRE', key, string.format('%d', opens))
    end
    local value = string.format('%s %d %d %s%s', epoch, top, should, empty, rest or '')
    redis.call('SET', record, value, 'PX', math.floor(opens))
    used, left = redis.pcall('GET', key), redis.call('PTTL', key)
  end
  answer[2 * i - 3] = whole(used)
  answer[2 * i - 2] = left
end
return answer
`

/** How many resets the store hash tells; a process that has missed more forgets what it knows. */
export const resetSlots = 64

/**
 * Resets counters. KEYS[1] the store hash, KEYS[2…] counters. ARGV[1] as of when, by the gateway's clock
 * (ms), ARGV[2] how long that is remembered (ms), then the name of each counter. The store hash tells the
 * last resets, so that every process learns of them with its next response.
 */
export const resetScript = `
for i = 2, #KEYS do
  redis.call('SET', (string.gsub(KEYS[i], '}:', '}:reset:', 1)), ARGV[1], 'PX', ARGV[2])
  redis.call('DEL', KEYS[i])
  local count = redis.call('HINCRBY', KEYS[1], 'resets', 1)
  redis.call('HSET', KEYS[1], 'reset:' .. count % ${resetSlots}, ARGV[1] .. ' ' .. ARGV[i + 1])
end
return 1
`

/**
 * KEYS[1] the claim, ARGV[1] its owner, ARGV[2] its duration (ms). Returns whether the owner has
 * it.
 */
export const claimScript = `
local owner = redis.call('GET', KEYS[1])
if owner and owner ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
`
