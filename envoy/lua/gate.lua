-- Decides what becomes of a request, and reads the response to it.
local match = string.match

local NOTHING_KNOWN = { is_first = true }

function envoy_on_request(handle)
  local headers = handle:headers()
  -- Whether Check is asked depends on these, so no client may set them.
  headers:remove("x-tollgate-cluster")
  headers:remove("x-tollgate-path")
  headers:remove("x-tollgate-again")
  local context = handle:filterContext()
  local where = context and context:get("model")
  if where == "body" or where == "large-body" then
    local path = match(headers:get(":path"), "^[^?]*")
    if require_credential(handle, path) then read_request(handle, path, NOTHING_KNOWN) end
  end
end
