-- Reads the usage that a response reports, while the response passes. It holds only an event that it may
-- have to remove, and a short JSON response with a content-length, so that one that breaks off is an error
-- instead of half a response.
--
-- The figures go into the metadata `tollgate.usage`, which the access logs send to the service. They are
-- `total_tokens` of `usage` and its parts by type. With the dialect "anthropic" in Check's metadata they are
-- the four figures of a message; those at the start of a stream have the prefix `start_`.
--
-- The first byte of a response decides what it is, whatever its content-type: with a brace or bracket it is
-- JSON, or lines of JSON, of which the last usage counts; otherwise it is a stream of events
-- (https://html.spec.whatwg.org/multipage/server-sent-events.html). Only the structure of JSON is followed, so
-- a NaN beside the usage does no harm.
--
-- If request-body.lua asked for usage and the client did not, the event that has nothing else
-- (`"choices":[]`) is removed.

local ffi = require("ffi")
local byte, find, match, sub = string.byte, string.find, string.match, string.sub

local QUOTE, BACKSLASH, COMMA, COLON = 34, 92, 44, 58
local OPEN_BRACE, CLOSE_BRACE, OPEN_BRACKET, CLOSE_BRACKET = 123, 125, 91, 93
local LF, CR = 10, 13

-- The members of a usage that are reported, and their names in the metadata.
local TOTAL = {
  total_tokens = "total_tokens",
  prompt_tokens = "prompt_tokens",
  completion_tokens = "completion_tokens",
  -- Of the Responses API.
  input_tokens = "prompt_tokens",
  output_tokens = "completion_tokens",
  cached_tokens = "cached_tokens",
  reasoning_tokens = "reasoning_tokens",
}
local MESSAGE = {
  input_tokens = "input_tokens",
  cache_creation_input_tokens = "cache_creation_input_tokens",
  cache_read_input_tokens = "cache_read_input_tokens",
  output_tokens = "output_tokens",
}
-- Members that hold further figures. Those get a prefix, so that a total among them is not taken for the
-- total.
local DETAILS = {
  prompt_tokens_details = "details_",
  completion_tokens_details = "details_",
  input_tokens_details = "details_",
  output_tokens_details = "details_",
}

-- The members of an event that may hold a usage, besides the event itself, and the prefix of its figures.
local IN_RESPONSE, IN_MESSAGE = { response = "" }, { message = "start_" }
local IN_ANSWER, IN_EVENT = { usage = true }, { usage = true, choices = true }

-- The longest value that is kept and the longest event that is read, in bytes.
local LONGEST_VALUE = 65536
local LONGEST_EVENT = 16777216
-- A longer event is more than usage, so it is not held.
local LONGEST_HELD = 65536
local LONGEST_NAME = 32

-- A reader of JSON texts that arrive in pieces. It calls visit(stream, name, value, prefix) for each member in
-- `wanted` at the top level and directly in the members of `parents`; `value` is the text of its value.
local function new_reader(stream, wanted, parents, visit)
  return {
    stream = stream,
    wanted = wanted,
    parents = parents,
    visit = visit,
    level = 0,
    in_string = false,
    escaped = false,
    -- The beginning of the current string in earlier pieces, as far as it may be a name.
    begun = "",
    -- The prefix of the current parent.
    prefix = nil,
    -- The current member of `wanted`, its level, and the pieces and size of its value.
    member = nil,
    member_level = 0,
    pieces = nil,
    size = 0,
  }
end

local function keep(reader, text, first, last)
  if last < first then return end
  reader.size = reader.size + last - first + 1
  if reader.size <= LONGEST_VALUE then reader.pieces[#reader.pieces + 1] = sub(text, first, last) end
end

-- Handles the name before a colon. Returns whether its value is to be kept.
local function begin_member(reader, name, level)
  if reader.wanted[name] then
    reader.member, reader.member_level, reader.pieces, reader.size = name, level, {}, 0
    return true
  end
  if level == 1 and reader.parents then reader.prefix = reader.parents[name] end
  return false
end

-- Handles the end of the current member.
local function end_member(reader, level)
  local name = reader.member
  reader.member = nil
  if reader.size > LONGEST_VALUE then return end
  reader.visit(reader.stream, name, table.concat(reader.pieces), level == 2 and reader.prefix or "")
end

local STRUCTURE = ffi.new("bool[256]")
for _, code in ipairs({ QUOTE, COMMA, COLON, OPEN_BRACE, CLOSE_BRACE, OPEN_BRACKET, CLOSE_BRACKET }) do
  STRUCTURE[code] = true
end

-- The number of backslashes directly before `at`, not before `first`.
local function backslashes(p, first, at)
  local before = at - 1
  while before >= first and p[before] == BACKSLASH do before = before - 1 end
  return at - 1 - before
end

local function read(reader, text)
  local p, n = ffi.cast("const uint8_t*", text), #text
  local level, in_string, escaped, begun = reader.level, reader.in_string, reader.escaped, reader.begun
  -- The beginning and the end of the last string in this piece, from 0, and the beginning of the value that is
  -- kept.
  local first, last, from = 0, 0, 0
  local at = 0
  while at < n do
    local code = p[at]
    if in_string then
      -- Skip to the next quote, because most of a response is text.
      local quote = find(text, '"', at + 1, true)
      local stop = quote and quote - 1 or n
      if stop > at and p[stop - 1] == BACKSLASH or escaped then
        local before = backslashes(p, at, stop)
        -- A backslash at the end of the last piece escapes the first byte of this one.
        if before == stop - at and escaped then before = before + 1 end
        escaped = before % 2 == 1
      end
      if quote then
        if not escaped then in_string, last = false, stop end
        escaped = false
      end
      at = stop
    elseif STRUCTURE[code] then
      if code == QUOTE then
        in_string, first, begun = true, at + 1, ""
      elseif code == COLON then
        if level == 1 or level == 2 and reader.prefix then
          if not reader.member and last - first + #begun <= LONGEST_NAME then
            if begin_member(reader, begun .. sub(text, first + 1, last), level) then from = at + 1 end
          end
        end
      elseif code == OPEN_BRACE or code == OPEN_BRACKET then
        level = level + 1
      else
        -- A comma or a closing bracket ends the current member if it is at the member's level.
        if level <= 2 then
          if reader.member and reader.member_level == level then
            keep(reader, text, from + 1, at)
            end_member(reader, level)
          end
          if level <= 1 then reader.prefix = nil end
        end
        if code ~= COMMA and level > 0 then level = level - 1 end
      end
    end
    at = at + 1
  end
  if reader.member then keep(reader, text, from + 1, n) end
  -- Keep the last string, ended or not, because its colon may be in the next piece.
  if in_string then last = n end
  begun = #begun <= LONGEST_NAME and begun .. sub(text, first + 1, math.min(last, first + LONGEST_NAME + 1)) or begun
  reader.level, reader.in_string, reader.escaped, reader.begun = level, in_string, escaped, begun
end

-- The value as a number, or nil if it is none or beyond a double. A string remains a string, which the service
-- ignores.
local function to_figure(value)
  local number = match(value, "^%s*(%-?%d[%d.eE+-]*)%s*$")
  number = number and tonumber(number)
  if number and number > -math.huge and number < math.huge then return number end
  return match(value, '^%s*"([%w.+-]*)"%s*$')
end

local function tell_figure(stream, name, value, prefix)
  local figure = to_figure(value)
  if not figure then return end
  name = stream.usage_prefix .. prefix .. stream.fields[name]
  if stream.told[name] == figure then return end
  stream.told[name] = figure
  -- Fetch the metadata each time: the object is not valid after waiting for the next chunk.
  stream.handle:streamInfo():dynamicMetadata():set("tollgate.usage", name, figure)
end

-- Reports the figures in a value of `usage`. Returns whether it is an object.
local function tell(stream, usage, prefix)
  if not find(usage, "^%s*{") then return false end
  stream.usage_prefix = prefix
  read(new_reader(stream, stream.fields, stream.details, tell_figure), usage)
  return true
end

local function visit_event(stream, name, value, prefix)
  if name == "usage" then
    stream.has_usage = tell(stream, value, prefix) or stream.has_usage
  else
    stream.is_empty = find(value, "^%s*%[%s*%]%s*$") ~= nil
  end
end

local function visit_answer(stream, _, value)
  tell(stream, value, "")
end

-- Reads the data of one event. Returns whether it holds only usage.
local function read_event(stream, data)
  stream.has_usage, stream.is_empty = false, false
  read(new_reader(stream, IN_EVENT, stream.parents, visit_event), data)
  return stream.has_usage and stream.is_empty
end

-- The compiler keeps its code in the form that the first responses gave it. So it first sees a usual one.
local ANSWER = '{"choices":[' .. ('{"index":0,"message":{"role":"assistant","content":"Hello"}},'):rep(200) .. '{}]}'
for _ = 1, 20 do read(new_reader(nil, IN_ANSWER, nil, nil), ANSWER) end

-- The data lines of an event, joined. A byte-order mark may precede the first line of a stream.
local function data_of(event)
  local lines = {}
  for line in event:gmatch("[^\r\n]+") do
    local data = match(line, "^[\239\187\191]*data: ?(.*)$")
    if data then lines[#lines + 1] = data end
  end
  return table.concat(lines, "\n")
end

-- Handles the end of the current event. Returns what is to be sent of it.
local function end_event(stream)
  local event = table.concat(stream.event)
  local sent = stream.held
  stream.event, stream.size = {}, 0
  if find(event, '"usage"', 1, true) and read_event(stream, data_of(event)) and sent then
    return ""
  end
  return sent and event or ""
end

-- Adds a part to the current event. Returns what can be sent at once.
local function add(stream, part)
  stream.size = stream.size + #part
  if stream.size > LONGEST_EVENT then stream.event = {} else stream.event[#stream.event + 1] = part end
  if not stream.held then return part end
  if stream.size <= LONGEST_HELD then return "" end
  stream.held = false
  return table.concat(stream.event)
end

-- Finds the next usage that is not null. Once they are asked for usage, many servers put a null into all other
-- events. A plain search is ten times as fast as one for a pattern.
local function find_usage(text, from)
  while true do
    local first, last = find(text, '"usage"', from, true)
    if not first or find(text, "^%s*:%s*[^n%s]", last + 1) then return first end
    from = last + 1
  end
end

-- Reads a piece of whole events with LF as line ends, in which `usage` is the place of the first usage. Events
-- without usage are skipped. Returns what is to be sent.
local function read_whole_events(stream, text, usage)
  local p, out, from = ffi.cast("const uint8_t*", text), {}, 1
  while usage do
    local first = usage
    while first > from and not (p[first - 2] == LF and (first - 1 == from or p[first - 3] == LF)) do first = first - 1 end
    local _, last = find(text, "\n\n", usage, true)
    local event = sub(text, first, last)
    if #event <= LONGEST_EVENT and read_event(stream, data_of(event)) and stream.removes and #event <= LONGEST_HELD then
      out[#out + 1] = sub(text, from, first - 1)
      from = last + 1
    end
    usage = find_usage(text, last + 1)
  end
  if from == 1 then return text end
  out[#out + 1] = sub(text, from)
  return table.concat(out)
end

-- Reads a piece of a stream of events. Returns what is to be sent of it.
local function read_events(stream, text)
  -- After a CR, the piece may begin with the end of an event that was removed.
  local begins = stream.size == 0 and stream.at_start and not stream.after_cr
  local whole = begins and (sub(text, -2) == "\n\n" or sub(text, -4) == "\r\n\r\n")
  if whole then
    local usage = find_usage(text, 1)
    if not usage then return text end
    if not find(text, "\r", 1, true) then return read_whole_events(stream, text, usage) end
  end
  local p, out, from = ffi.cast("const uint8_t*", text), {}, 0
  for at = 0, #text - 1 do
    local code = p[at]
    if code == LF and stream.after_cr then
      -- The second half of a line end. If it belongs to the end of an event, it is sent or removed with it.
      stream.after_cr = false
      if stream.ended then
        if not stream.removed then out[#out + 1] = "\n" end
        from = at + 1
      end
    elseif code == LF or code == CR then
      stream.after_cr, stream.ended = code == CR, stream.at_start
      if stream.at_start then
        out[#out + 1] = add(stream, sub(text, from + 1, at + 1))
        local rest = end_event(stream)
        stream.removed = stream.held and rest == ""
        stream.held = stream.removes
        out[#out + 1] = rest
        from = at + 1
      end
      stream.at_start = true
    else
      stream.at_start, stream.after_cr = false, false
    end
  end
  if from < #text then out[#out + 1] = add(stream, sub(text, from + 1)) end
  return stream.removes and table.concat(out) or text
end

-- The first byte of a response that belongs neither to a byte-order mark nor to white space.
local function first_byte(text)
  return byte(text, match(text, "^[\239\187\191 \t\r\n]*()"))
end

-- The longest JSON response that is held, in bytes.
local MOST_HELD = 1048576

local function is_short_json(headers)
  local length = tonumber(headers:get("content-length") or "")
  return length ~= nil and length <= MOST_HELD and find((headers:get("content-type") or ""):lower(), "json", 1, true) ~= nil
end

-- Reads a piece of a response. Returns what is to be sent of it.
local function read_piece(stream, text)
  if stream.is_json == nil then
    local first = first_byte(text)
    if first then stream.is_json = first == OPEN_BRACE or first == OPEN_BRACKET end
    if stream.is_json then
      stream.document = new_reader(stream, IN_ANSWER, nil, visit_answer)
    end
  end
  if not stream.document then return read_events(stream, text) end
  read(stream.document, text)
  return text
end

local function meter(handle, anthropic, removes, short)
  local stream = {
    handle = handle,
    fields = anthropic and MESSAGE or TOTAL,
    details = not anthropic and DETAILS or nil,
    -- The figures reported so far, so that a figure is reported again only if it changes.
    told = {},
    parents = anthropic and IN_MESSAGE or IN_RESPONSE,
    removes = removes,
    -- Whether the response is JSON, and its reader. Unknown before its first byte.
    is_json = nil,
    document = nil,
    -- The parts of the current event, their size, and whether they are held.
    event = {},
    size = 0,
    held = removes,
    -- Whether the next byte is at the start of a line; whether it follows a CR, so that it may be the LF of
    -- the same line end; whether that line end ended an event, and whether the event was removed.
    at_start = true,
    after_cr = false,
    ended = false,
    removed = false,
  }
  if short then
    local body = handle:body()
    if body then read_piece(stream, body:getBytes(0, body:length())) end
    return
  end
  for chunk in handle:bodyChunks() do
    local length = chunk:length()
    if length == 0 then
      -- The end of the response, and of its last event.
      local rest = end_event(stream)
      if rest ~= "" then chunk:setBytes(rest) end
    else
      local text = chunk:getBytes(0, length)
      local sent = read_piece(stream, text)
      if sent ~= text then chunk:setBytes(sent) end
    end
  end
  -- The last event of a response that ended without such a chunk.
  end_event(stream)
end

-- If the gateway has its own credential at the model server, a refusal of it is not the caller's fault, but the
-- client would report it as one. The server's message may contain part of the credential.
local REFUSED = '"message":"The model server does not accept the credential of this gateway.","type":'

local function hide_refusal(handle, anthropic)
  handle:streamInfo():dynamicMetadata():set("tollgate.failure", "reason", "credential_refused")
  local text = anthropic and '{"type":"error","error":{' .. REFUSED .. '"api_error"}}'
    or '{"error":{' .. REFUSED .. '"server_error","code":"model_credential_refused"}}'
  local length = handle:body(true):setBytes(text)
  local headers = handle:headers()
  for _, name in ipairs({ "www-authenticate", "proxy-authenticate", "content-encoding", "retry-after", "trailer" }) do
    headers:remove(name)
  end
  headers:replace(":status", "502")
  headers:replace("content-type", "application/json")
  headers:replace("content-length", tostring(length))
  headers:replace("x-should-retry", "false")
end

-- No process answered Check. Another gateway may have one, and only a new connection gets there.
-- Envoy's own 503 says "1" (local_reply_config); refusals of Check say more.
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
  if check.credential then
    local refusal = handle:headers():get(":status")
    if refusal == "401" or refusal == "403" then return hide_refusal(handle, check.dialect == "anthropic") end
  end
  local body = metadata:get("tollgate.body")
  local removes = body ~= nil and body.usage_added == true
  if not check.metered and not removes then return end
  local headers = handle:headers()
  local status = headers:get(":status")
  if sub(status, 1, 1) ~= "2" then return end
  local encoding = headers:get("content-encoding")
  if encoding and encoding:lower() ~= "identity" then return end
  -- It would be wrong once an event is removed.
  local short = is_short_json(headers)
  if removes and not short then headers:remove("content-length") end
  local fine, problem = pcall(meter, handle, check.dialect == "anthropic", removes, short)
  if not fine then handle:logErr(tostring(problem)) end
end
