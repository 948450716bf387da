-- Envoy makes a gRPC response of its own responses to requests with such a content type: status 200, the text in
-- grpc-message. This gives the refusal its own status and form.
function envoy_on_response(handle)
  local headers = handle:headers()
  local message = headers:get("grpc-message")
  headers:remove("grpc-message")
  headers:remove("grpc-status")
  headers:replace(":status", "415")
  headers:replace("content-type", "application/json")
  -- The response to a HEAD has no text.
  if not message then return end
  local text = message:gsub("%%(%x%x)", function(code) return string.char(tonumber(code, 16)) end)
  local length = handle:body(true):setBytes(text)
  headers:replace("content-length", tostring(length))
end
