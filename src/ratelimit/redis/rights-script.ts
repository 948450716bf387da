/** Asks whether the user of Redis may do what the other scripts do: otherwise counts would fail later, one by one. */

/** Keys, then arguments. */
export interface RightsCommands {
  /** The commands that this user may not run. */
  refusedCommands(keys: readonly string[], args: readonly []): Promise<readonly string[]>
}

/** A name that has no other use. */
export const rightsKey = 'tollgate:{all}:rights'

/**
 * KEYS[1] a key to try them on, which is left out afterwards. Fails with any other error, such as of a server that is
 * full.
 */
const refusedCommands = `
local answer, key, failure = {}, KEYS[1], nil
-- Texts of Redis and Valkey; the last one: renamed in the server's configuration.
local refusals = { "can't run this command", 'NOPERM', 'ACL failure', 'nknown %a* ?command called' }
local function is_refusal(error)
  for _, refusal in ipairs(refusals) do
    if string.find(error, refusal) then return true end
  end
end
local function try(command, ...)
  local found = redis.pcall(command, ...)
  local error = type(found) == 'table' and found.err
  if error and is_refusal(error) then answer[#answer + 1] = command else failure = failure or error end
end
try('TIME')
try('TYPE', key)
try('SET', key, '1', 'PX', '1000')
try('GET', key)
try('PTTL', key)
try('PEXPIRE', key, '1000')
try('DEL', key)
try('HSET', key, 'a', '1')
try('HGET', key, 'a')
try('HMGET', key, 'a')
try('HGETALL', key)
try('HDEL', key, 'a')
try('ZADD', key, '1', 'a')
try('ZRANGEBYSCORE', key, '1', '1')
try('ZREM', key, 'a')
if failure and #answer == 0 then return redis.error_reply(failure) end
return answer
`

export const rightsScript = { refusedCommands }
