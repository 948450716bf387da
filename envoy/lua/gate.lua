-- Allows a request if the table has it (table.lua), sends any other to Check, and reads the model's response. Check is
-- called unless the header x-tollgate-cluster is set: then the filters that call Check are not created. Any error here
-- results in a Check.
local find, match = string.find, string.match

-- Longer keys, paths with their queries and model names are not looked up in the table; nor are requests with longer
-- bodies, which would be held before the caller is known.
local LONGEST_KEY, LONGEST_PATH, LONGEST_MODEL, LONGEST_BODY = 256, 512, 400, 1048576

-- The key of a request if that is its only credential, in a usual form; Check handles anything else
-- (identity/authenticate.ts).
local function key_of(headers)
  local bearer, key = headers:get("authorization"), headers:get("x-api-key")
  if bearer and key then return nil end
  if bearer then
    key = match(bearer, "^[Bb]earer (sk%-[^%s,]+)$")
  elseif key then
    key = match(key, "^sk%-[^%s,]+$")
  end
  return key and #key <= LONGEST_KEY and key
end

-- Calls `decide_by_table` for a request with these headers and this path, if the table may have it.
local function look_up(headers, path, model, started_at)
  if not decide_by_table then return nil, "off" end
  local key, length = key_of(headers), tonumber(headers:get("content-length") or "")
  if not key or #path > LONGEST_PATH or not length or length > LONGEST_BODY or headers:get(":method") ~= "POST" then
    return nil, "shape"
  end
  return decide_by_table(key, path, model, headers:get("x-request-id") or "", started_at, length)
end

-- Notes in metadata that the request was allowed, and by what, for its line, its response and the route to the model
-- (`passed` begins with `read`).
local function note(handle, line, passed)
  local metadata = handle:streamInfo():dynamicMetadata()
  metadata:set("envoy.filters.http.ext_authz", "line", line)
  metadata:set("tollgate.gate", "passed", "read\t" .. passed)
end

-- Sends the request to the model.
local function leave(handle, plan)
  local headers, own = handle:headers(), plan.headers
  for at = 1, #own, 2 do headers:replace(own[at], own[at + 1]) end
  headers:replace(":path", plan.path)
  handle:clearRouteCache()
end

local function leave_noted(handle, asked)
  note(handle, asked.line, asked.passed)
  leave(handle, asked.plan)
end

-- Leaves the request to Check, with the reason. The response to a HEAD, which the table never allows, must get no body.
local function ask_check(handle, why)
  local headers = handle:headers()
  headers:replace("x-tollgate-miss", why)
  if headers:get(":method") == "HEAD" then handle:streamInfo():dynamicMetadata():set("tollgate.gate", "head", true) end
end

-- Cleans up after an error.
local function recover(handle, problem)
  handle:logErr(tostring(problem))
  handle:headers():remove("x-tollgate-cluster")
  handle:streamInfo():dynamicMetadata():set("tollgate.gate", "passed", "")
  ask_check(handle, "closed")
end

-- The path names the model: decides before the body is read.
local function decide_by_path(handle, headers)
  local whole = headers:get(":path")
  local fine, plan, line, passed = pcall(look_up, headers, whole, "", now_ms())
  if not fine then return recover(handle, plan) end
  if not plan then return ask_check(handle, line) end
  local path = match(whole, "^[^?]*")
  note(handle, line, passed)
  if not read_request(handle, path, plan) then return end
  local problem
  fine, problem = pcall(leave, handle, plan)
  if not fine then recover(handle, problem) end
end

-- The plan for a request whose body names this model. If the body must also name a certain model, Check compares them.
local function choose(asked, headers, model)
  if #model > LONGEST_MODEL or find(model, "%z") then
    asked.why = "shape"
    return nil
  end
  local fine, plan, line, passed = pcall(look_up, headers, asked.path, model, asked.started_at)
  if not fine then
    asked.why = "closed"
    return nil
  end
  asked.plan, asked.line, asked.passed, asked.why = plan, line, passed, line
  return plan
end

-- The body names the model: it is read first. Check reports its faults to the caller.
local function decide_by_body(handle, headers)
  local whole = headers:get(":path")
  local asked = { is_first = true, choose = choose, path = whole, started_at = now_ms(), why = "shape" }
  local path = match(whole, "^[^?]*")
  if not require_credential(handle, path) then return end
  if not read_request(handle, path, asked) then return ask_check(handle, "shape") end
  if not asked.plan then return ask_check(handle, asked.why) end
  local fine, problem = pcall(leave_noted, handle, asked)
  if not fine then recover(handle, problem) end
end

local BODY_ALONE = { is_first = true }

function envoy_on_request(handle)
  local headers = handle:headers()
  headers:remove("x-tollgate-cluster")
  headers:remove("x-tollgate-path")
  headers:remove("x-tollgate-again")
  local context = handle:filterContext()
  local named_by = context and context:get("model")
  if named_by == "path" then return decide_by_path(handle, headers) end
  if named_by == "body" then return decide_by_body(handle, headers) end
  ask_check(handle, decide_by_table and "shape" or "off")
  if named_by == "large-body" then
    local path = match(headers:get(":path"), "^[^?]*")
    if require_credential(handle, path) then read_request(handle, path, BODY_ALONE) end
  end
end

-- Each dialect's header names for the limit that binds, its remaining amount, and its reset.
local OPENAI = { "x-ratelimit-limit-tokens", "x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens" }
local ANTHROPIC =
  { "anthropic-ratelimit-tokens-limit", "anthropic-ratelimit-tokens-remaining", "anthropic-ratelimit-tokens-reset" }

-- Sets the headers that Check would have set for a request that the table allowed, and completes the metadata of the
-- request.
local function as_from_check(handle, check, passed)
  local flags, policy, limit, left, reset, items, lane =
    match(passed, "^read\t([^\t]*)\t([^\t]*)\t([^\t]*)\t([^\t]*)\t([^\t]*)\t([^\t]*)\t([^\t]*)$")
  if not flags then return end
  local is_anthropic = find(flags, "a", 1, true) ~= nil
  check.metered, check.dialect = true, is_anthropic and "anthropic" or nil
  check.credential, check.estimate = find(flags, "c", 1, true) ~= nil, find(flags, "e", 1, true) ~= nil
  check.lane = lane ~= "" and lane or nil
  if policy == "" then return end
  local headers, names = handle:headers(), is_anthropic and ANTHROPIC or OPENAI
  headers:replace(names[1], limit)
  headers:replace(names[2], left)
  headers:replace(names[3], reset)
  headers:replace("ratelimit-policy", policy)
  headers:replace("ratelimit", items)
end

-- No process responded to Check. Another gateway may reach one, but only a new connection is routed there. Envoy's own
-- 503 has `retry-after: 1` (local_reply_config), refusals of Check have a longer one.
local function leave_if_unserved(handle)
  local headers = handle:headers()
  if headers:get(":status") == "503" and headers:get("retry-after") == "1" then
    handle:streamInfo():drainConnectionUponCompletion()
  end
end

function envoy_on_response(handle)
  local metadata = handle:streamInfo():dynamicMetadata()
  local check = metadata:get("envoy.filters.http.ext_authz")
  if not check then return leave_if_unserved(handle) end
  local gate = metadata:get("tollgate.gate")
  if gate and gate.passed then as_from_check(handle, check, gate.passed) end
  read_response(handle, check, metadata:get("tollgate.body"), gate ~= nil and gate.head == true)
end
