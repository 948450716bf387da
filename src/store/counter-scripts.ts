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
  /** Another number after each new connection: what was told before may be gone by then. */
  readonly session: number
}

/**
 * KEYS[1] the mark of the sender, KEYS[2…] counters. ARGV[1] number of the batch, ARGV[2] how long
 * the mark is kept (ms), ARGV[3] when the batch was sent by Redis's own clock (ms, 0: unknown), then
 * for each counter: the tokens to add; how long a window that these tokens open had left then (ms);
 * what such a window begins with. Answers Redis's time, then tokens used and milliseconds left (-2:
 * no window) of each.
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
local answer = { now }
for i = 2, #KEYS do
  local key, at = KEYS[i], 3 * i - 2
  local left = redis.call('PTTL', key)
  local used
  if left == -2 then
    used = 0
    local opens = ARGV[at + 1] - late
    if fresh and opens > 0 and ARGV[at + 2] ~= '0' then
      used, left = ARGV[at + 2], opens
      redis.call('SET', key, used, 'PX', string.format('%d', left))
    end
  elseif fresh and ARGV[at] ~= '0' then
    -- pcall: what somebody else has put there must not stop the other counters.
    used = redis.pcall('INCRBY', key, ARGV[at])
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
