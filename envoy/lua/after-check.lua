-- Runs after Check: reads the body if that was deferred, and replaces the client's path with the path at the model's
-- server, which selects the route to the model. No request gets that route otherwise.
local find, match = string.find, string.match

local NOTHING_KNOWN = { is_first = true }

-- Check's instructions for the body, from its headers.
local function asked_by(handle, headers)
  local check = handle:streamInfo():dynamicMetadata():get("envoy.filters.http.ext_authz")
  return {
    is_metered = check ~= nil and check.metered == true,
    models = headers:get("x-tollgate-models"),
    open = headers:get("x-tollgate-open"),
    upstream_model = headers:get("x-tollgate-upstream-model"),
    ceiling = tonumber(headers:get("x-tollgate-ceiling") or ""),
    maximum = headers:get("x-tollgate-maximum"),
    chunk_usage = headers:get("x-tollgate-chunk-usage"),
  }
end

-- Whether a body that was read before Check must be read again.
local function is_of_interest(path, asked)
  return asked.upstream_model or asked.ceiling or asked.maximum or asked.models or find(path, "/v1/completions$")
    or asked.chunk_usage and find(path, "/v1/chat/completions$")
end

local function pass(handle, how)
  local headers = handle:headers()
  headers:replace(":path", headers:get("x-tollgate-path"))
  handle:streamInfo():dynamicMetadata():set("tollgate.gate", "passed", how)
  handle:clearRouteCache()
end

function envoy_on_request(handle)
  local context, headers = handle:filterContext(), handle:headers()
  local how, path = context and context:get("body"), match(headers:get(":path"), "^[^?]*")
  if how == "as-is" then return pass(handle, how) end
  -- Check needs the size of the body first.
  if not headers:get("x-tollgate-path") then return read_request(handle, path, NOTHING_KNOWN) end
  local asked = asked_by(handle, headers)
  asked.is_again = how == "was-read" or headers:get("x-tollgate-again") ~= nil
  if asked.is_again and not is_of_interest(path, asked) or read_request(handle, path, asked) then pass(handle, "read") end
end
