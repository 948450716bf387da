/**
 * What Redis is asked to do, in Lua, so that it happens whole or not at all. A counter is a plain
 * integer whose expiry is the end of its window: window ends are Redis's to decide, and a counter
 * leaves by itself.
 */

/** The scripts as commands: keys, then arguments; a flat list of integers comes back. */
export interface CounterCommands {
  add(keys: readonly string[], args: readonly (string | number)[]): Promise<readonly number[]>
  read(keys: readonly string[]): Promise<readonly number[]>
  ping(): Promise<unknown>
  /** 1 when the key is the owner's for the next `ms`, 0 when it is another's. */
  claim(key: string, owner: string, ms: number): Promise<number>
  /** Removes the keys, which have one hash tag. */
  forget(keys: readonly string[]): Promise<unknown>
  /** Another number after each new connection: what was told before may be gone by then. */
  readonly session: number
}

/**
 * KEYS[1] the mark of the sender, KEYS[2…] counters, and then sets of responses counted. ARGV[1]
 * number of the batch, ARGV[2] how long the mark is kept (ms), ARGV[3] when the batch was sent by
 * Redis's own clock (ms, 0: unknown), then for each counter: the tokens to add; how long a window
 * that these tokens open had left then (ms); what such a window begins with. With reports two more:
 * how long a set is kept (ms), and a JSON array of them, each: its member; the number of its set,
 * and of another to look into (0: none); tokens; how many counters; for each the number of the
 * counter and how long a window that the response opens had left (ms). Numbers count from 1.
 * Answers Redis's time, then tokens used and milliseconds left (-2: no window) of each counter.
 *
 * A sender has one batch under way, numbered upwards. A batch at or below the mark has been added
 * before: its answer was lost, or the network delivered it twice. It then only reads. The mark is
 * written first: a Redis that is out of memory or a replica refuses that, and nothing has happened.
 */
export const addScript = `
local fresh = tonumber(ARGV[1]) > tonumber(redis.call('GET', KEYS[1]) or '0')
if fresh then redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
-- What was held back on its way must not open a window that ends later than it should.
local late = ARGV[3] == '0' and 0 or math.max(0, now - ARGV[3])
local counters = math.floor((#ARGV - 3) / 3)
local reported, opened = {}, {}
if fresh and ARGV[3 * counters + 5] then
  local reports, at = cjson.decode(ARGV[3 * counters + 5]), 1
  local last = #reports
  while at < last do
    local member, own, other, tokens = unpack(reports, at, at + 3)
    local first = at + 5
    at = first + 2 * reports[at + 4]
    local seen = true
    for i = first, at - 1, 2 do
      if reports[i + 1] > late then seen = false end
    end
    if not seen and other > 0 then
      seen = redis.pcall('SISMEMBER', KEYS[1 + counters + other], member) == 1
    end
    if not seen and redis.pcall('SADD', KEYS[1 + counters + own], member) ~= 0 then
      for i = first, at - 1, 2 do
        local counter, opens = reports[i], reports[i + 1] - late
        if opens > 0 then
          reported[counter] = (reported[counter] or 0) + tokens
          opened[counter] = opened[counter] or opens
        end
      end
    end
  end
  for i = counters + 2, #KEYS do
    if redis.call('PTTL', KEYS[i]) == -1 then
      redis.call('PEXPIRE', KEYS[i], ARGV[3 * counters + 4])
    end
  end
end
local answer = { now }
for i = 2, counters + 1 do
  local key, at, more = KEYS[i], 3 * i - 2, reported[i - 1]
  local left = redis.call('PTTL', key)
  local used
  if left == -2 then
    used = 0
    local begin, opens = ARGV[at + 2], ARGV[at + 1] - late
    if opens <= 0 or not fresh then begin = '0' end
    if more then
      if begin == '0' then opens = opened[i - 1] end
      begin = string.format('%d', begin + more)
    end
    if begin ~= '0' then
      used, left = begin, opens
      redis.call('SET', key, used, 'PX', string.format('%d', left))
    end
  elseif fresh and (more or ARGV[at] ~= '0') then
    local tokens = more and string.format('%d', ARGV[at] + more) or ARGV[at]
    -- pcall: what somebody else has put there must not stop the other counters.
    used = redis.pcall('INCRBY', key, tokens)
  else
    used = redis.pcall('GET', key)
  end
  answer[2 * i - 2] = tonumber(type(used) == 'table' and 0 or used)
  answer[2 * i - 1] = left
end
return answer
`

/** KEYS counters. Answers Redis's time, then tokens used and milliseconds left (-2: no window). */
export const readScript = `
local time = redis.call('TIME')
local answer = { time[1] * 1000 + math.floor(time[2] / 1000) }
for i = 1, #KEYS do
  local left = redis.call('PTTL', KEYS[i])
  local used = left ~= -2 and redis.pcall('GET', KEYS[i]) or 0
  answer[2 * i] = tonumber(type(used) == 'table' and 0 or used)
  answer[2 * i + 1] = left
end
return answer
`

/** KEYS[1] what is claimed, ARGV[1] by whom, ARGV[2] for how long (ms). Answers whether it is theirs. */
export const claimScript = `
local owner = redis.call('GET', KEYS[1])
if owner and owner ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
`
