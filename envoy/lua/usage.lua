-- Reads the usage that a response reports, while the response passes. It holds only an event that it may
-- have to remove, and a short JSON response with a content-length, so that one that breaks off is an error
-- instead of half a response.
--
-- The figures go into the metadata `tollgate.usage`, which the access logs send to the service. They are
-- `total_tokens` of `usage` and its parts by type. With the dialect "anthropic" in Check's metadata they are
-- the four figures of a message; those at the start of a stream have the prefix `start_`.
--
-- The first byte of a response decides what it is, whatever its content-type: with a brace or bracket it is
-- JSON, or lines of JSON, of which the last usage counts; in a list of answers all of them count, because llama.cpp
-- answers each of `n` on its own. Otherwise it is a stream of events
-- (https://html.spec.whatwg.org/multipage/server-sent-events.html). Only the structure of JSON is followed, so
-- a NaN beside the usage does no harm.
--
-- If request-body.lua asked for usage and the client did not, the event that has nothing else
-- (`"choices":[]`) is removed. If it asked for usage in each event, that of an event with choices becomes null, as where
-- a server reports it only at the end.
--
-- Envoy's overload manager does not see Lua's memory, so nothing is kept of a response between two of its pieces but
-- where in its structure it is, and an event that may have to be removed, up to 64 KiB of it.

local ffi = require("ffi")
local byte, find, match, sub = string.byte, string.find, string.match, string.sub
local cast, band, bnot, bor, bxor, rshift = ffi.cast, bit.band, bit.bnot, bit.bor, bit.bxor, bit.rshift

local QUOTE, BACKSLASH, COMMA, COLON, SPACE = 34, 92, 44, 58, 32
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

-- The longest figure that is read, in bytes.
local LONGEST_FIGURE = 1024
local LONGEST_NAME = 32
-- The longest event that is held, in bytes. A longer one is more than usage.
local LONGEST_HELD = 65536
-- The most that is held of all events on this thread, in bytes. ENVOY_HEAP_BYTES leaves room for it and for garbage.
local MOST_HELD = 4194304
-- The parts of an event that are held before they are joined.
local MOST_PARTS = 64

-- The members that are looked for, as a tree. A node says what its value is: a `figure`, by its place among the labels
-- of the dialect; the `choices`; a `usage` or another object, and which of its members are looked for.
local function figures(labels, fields, prefix)
  local members = {}
  for name, label in pairs(fields) do
    label = prefix .. label
    if not labels[label] then
      labels[#labels + 1] = label
      labels[label] = #labels
    end
    members[name] = { figure = labels[label] }
  end
  return members
end

-- A node for an object. `known` tells from the length and the first byte of a name that it is not looked for.
local function object_node(members)
  local known = ffi.new("bool[?]", (LONGEST_NAME + 1) * 256)
  for name in pairs(members) do known[#name * 256 + byte(name)] = true end
  return { members = members, known = known }
end

local function usage_node(labels, fields, details, prefix)
  local members = figures(labels, fields, prefix)
  for name, more in pairs(details) do members[name] = object_node(figures(labels, fields, prefix .. more)) end
  local node = object_node(members)
  node.usage = true
  return node
end

local CHOICES = { choices = true }

local function dialect(fields, details, parent, prefix)
  local labels = {}
  local usage = usage_node(labels, fields, details, "")
  local inner = object_node({ usage = usage_node(labels, fields, details, prefix), choices = CHOICES })
  return {
    labels = labels,
    answer = object_node({ usage = usage }),
    event = object_node({ usage = usage, choices = CHOICES, [parent] = inner }),
  }
end

local OPENAI = dialect(TOTAL, DETAILS, "response", "")
local ANTHROPIC = dialect(MESSAGE, {}, "message", "start_")
-- Stands for the value of a usage that was an object and has ended.
local COMPLETE = { complete = true }

-- Eight bytes at once. In the results, the lowest high bit that is set marks the first byte that is meant; higher
-- bits may be wrong.
local BYTES, FOUR, EIGHT = ffi.typeof("const uint8_t*"), ffi.typeof("const uint32_t*"), ffi.typeof("const uint64_t*")
local ONES, HIGH_BITS = 0x0101010101010101ULL, 0x8080808080808080ULL
local QUOTE_IN_EACH, BACKSLASH_IN_EACH, PAST_CR_IN_EACH = ONES * QUOTE, ONES * BACKSLASH, ONES * (CR + 1)

local function zeros(eight)
  return band(eight - ONES, bnot(eight), HIGH_BITS)
end

local function bytes_before(high_bits)
  return tonumber(rshift(band(band(high_bits, -high_bits) - 1, ONES) * ONES, 56)) - 1
end

local function is_space(code)
  return code == SPACE or code >= 9 and code <= CR
end

local function past_space(p, at, last)
  while at < last and is_space(p[at]) do at = at + 1 end
  return at
end

local function before_space(p, first, at)
  while at > first and is_space(p[at - 1]) do at = at - 1 end
  return at
end

-- Where a line of an event is: at its beginning, after one to four bytes of "data:", after all of them, in its data,
-- in a line of another kind, or after a byte-order mark, which may precede the first line.
local LINE, AFTER_COLON, DATA, OTHER, MARK = 0, 5, 6, 7, 8
local FIELD = ffi.new("uint8_t[5]", { byte("data:", 1, 5) })
local DATA_FIELD = cast(FOUR, FIELD)[0]

-- A reader of JSON texts that arrive in pieces, or of the data in the lines of events. It collects the figures of
-- each usage in `told`, and notes whether the text had a usage and whether its choices were empty.
local function new_reader(root, told, is_event)
  return {
    root = root,
    told = told,
    is_event = is_event,
    -- The place in the line, and whether the last byte was the CR of a line end, which an LF may follow.
    line = is_event and LINE or DATA,
    after_cr = false,
    has_usage = false,
    is_empty = false,
    has_choices = false,
    -- Where the piece begins, and where the usage is, both from the beginning of the event.
    base = 0,
    usage_first = nil,
    usage_last = nil,
    -- The node of the object that is open, those of the objects around it, and the number of other containers that
    -- are open in it.
    node = nil,
    outer = {},
    depth = 0,
    below = 0,
    in_string = false,
    escaped = false,
    -- The beginning of the last string in earlier pieces, as far as it may be a name.
    begun = "",
    -- The node of the member whose value is being read, and the beginning of the value in earlier pieces.
    member = nil,
    value = nil,
    -- The figures of the usage that is open, by the places of their labels; false for those that it has not.
    figures = {},
  }
end

-- Prepares for the next event.
local function reset(reader)
  reader.line, reader.after_cr, reader.has_usage, reader.is_empty = LINE, false, false, false
  reader.has_choices, reader.usage_first, reader.usage_last = false, nil, nil
  reader.node, reader.depth, reader.below, reader.in_string, reader.escaped = nil, 0, 0, false, false
  reader.begun, reader.member, reader.value = "", nil, nil
end

-- The first digits of the least number that is read as infinite; it has 309.
local INFINITE = "179769313486231580793728971405"

-- The value as a number, nil if it is none or beyond a double. The text decides, because tonumber takes 50
-- microseconds for 1e300. No counter holds 1e21 or a fraction, so -1 stands for all such numbers.
local function to_number(text)
  local minus, whole, fraction, past = match(text, "^(%-?)(%d+)%.?(%d*)()")
  if not whole then return nil end
  local exponent = 0
  if past <= #text then
    local sign, digits = match(text, "^[eE]([+-]?)0*(%d*)$", past)
    if not sign or not find(text, "%d$") then return nil end
    exponent = (#digits > 9 and 1e9 or tonumber(digits) or 0) * (sign == "-" and -1 or 1)
  end
  local digits = whole .. fraction
  local first = match(digits, "^0*()")
  if first > #digits then return 0 end
  -- The exponent of the first significant digit.
  local magnitude = #whole - first + exponent
  if magnitude > 308 or magnitude == 308 and sub(digits, first) >= INFINITE then return nil end
  if magnitude < -324 then return 0 end
  if minus ~= "" or magnitude > 20 or magnitude < -1 then return -1 end
  -- What is left of the digits only says whether there is more.
  local kept = sub(digits, first, first + 69)
  if find(digits, "[1-9]", first + 70) then kept = kept .. "1" end
  return tonumber(kept .. "e" .. magnitude - #kept + 1)
end

-- The text of a value as a figure, or nil. A string remains a string, which the service ignores.
local function to_figure(text)
  return to_number(text) or match(text, '^"([%w.+-]*)"$')
end

-- The same for a whole number of at most 15 digits, with or without an exponent, between two places; nil for most others.
local function short_number(p, at, last)
  local number, first = 0, at
  while at < last and p[at] >= 48 and p[at] <= 57 do
    number, at = number * 10 + p[at] - 48, at + 1
  end
  local digits = at - first
  if digits == 0 or digits > 15 then return nil end
  if at == last then return number end
  if bor(p[at], 32) ~= 101 or last - at > 5 or number == 0 then return nil end
  local below = p[at + 1] == 45
  at = at + ((below or p[at + 1] == 43) and 2 or 1)
  if at == last then return nil end
  local exponent = 0
  while at < last do
    local digit = p[at] - 48
    if digit < 0 or digit > 9 then return nil end
    exponent, at = exponent * 10 + digit, at + 1
  end
  local magnitude = digits - 1 + (below and -exponent or exponent)
  return (magnitude > 20 and magnitude < 308 or magnitude < -1 and magnitude > -324) and -1 or nil
end

-- Appends a part of the current value.
local function keep_value(reader, text, first, last, joint)
  local value = reader.value or ""
  if #value <= LONGEST_FIGURE then
    reader.value = value .. sub(text, first + 1, math.min(last, first + LONGEST_FIGURE + 1)) .. joint
  end
end

-- Handles the end of the value that is read, of which the text from `first` to `last` was not kept.
local function end_value(reader, p, text, first, last)
  local member = reader.member
  reader.member = nil
  if member == COMPLETE then
    reader.has_usage = true
    local figures, told = reader.figures, reader.told
    for label = 1, #told do told[label] = figures[label] or told[label] end
    return
  end
  local label = member.figure
  if label and not reader.value then
    first = past_space(p, first, last)
    last = before_space(p, first, last)
    local figure = short_number(p, first, last)
    if figure then
      reader.figures[label] = figure
      return
    end
  end
  if not label and member ~= CHOICES then return end
  keep_value(reader, text, first, last, "")
  local value = reader.value
  reader.value = nil
  if member == CHOICES then
    reader.is_empty = #value <= LONGEST_FIGURE and find(value, "^%s*%[%s*%]%s*$") ~= nil
    reader.has_choices = not reader.is_empty
  elseif #value <= LONGEST_FIGURE then
    local inner = cast(BYTES, value)
    first = past_space(inner, 0, #value)
    local figure = to_figure(sub(value, first + 1, before_space(inner, first, #value)))
    if figure then reader.figures[label] = figure end
  end
end

local STRUCTURE = ffi.new("bool[256]")
for _, code in ipairs({ QUOTE, COMMA, COLON, OPEN_BRACE, CLOSE_BRACE, OPEN_BRACKET, CLOSE_BRACKET, LF, CR }) do
  STRUCTURE[code] = true
end

-- Handles a brace at `at` that opens an object which is looked for: `node`, or the text itself.
local function descend(reader, node, at)
  reader.depth = reader.depth + 1
  reader.outer[reader.depth] = reader.node
  reader.node, reader.member = node, nil
  if node.usage then
    reader.usage_first, reader.usage_last = reader.base + at, nil
    for label = 1, #reader.told do reader.figures[label] = false end
  end
end

-- A figure of the next object in a list with that of those before it. One that is no count makes the sum none.
local function sum_of(before, figure)
  if not (before and figure) then return before or figure end
  if type(before) ~= "number" or type(figure) ~= "number" or before < 0 or figure < 0 then return -1 end
  return before + figure
end

-- Adds what an object of a list has told to the sums of those before it.
local function add_up(told, sums)
  for label = 1, #told do
    sums[label], told[label] = sum_of(sums[label], told[label]), false
  end
end

-- Handles the end of such an object at `at`.
local function ascend(reader, at)
  if reader.node.usage then reader.usage_last = reader.base + at end
  reader.member = reader.node.usage and COMPLETE or nil
  reader.node = reader.outer[reader.depth]
  reader.depth = reader.depth - 1
  if reader.sums and reader.depth == 0 then add_up(reader.told, reader.sums) end
end

-- Keeps what is needed of a piece, or of a line of data, that ends at `last`: of a value, and of the last string, because
-- its colon may follow. What follows is joined to it by `joint`.
local function pause(reader, p, text, first, stop, from, last, joint)
  local member = reader.member
  if member and member.members then
    -- Only an object is looked into.
    if reader.below == 0 and past_space(p, from, last) < last then reader.member = nil end
  elseif member and member ~= COMPLETE then
    keep_value(reader, text, from, last, joint)
  end
  local begun = reader.begun
  if reader.below > 0 or #begun > LONGEST_NAME then return end
  if reader.in_string then
    reader.begun = begun .. sub(text, first + 1, math.min(last, first + LONGEST_NAME + 1)) .. joint
  elseif stop > first then
    reader.begun = begun .. sub(text, first + 1, math.min(stop, first + LONGEST_NAME + 1))
  end
end

-- Reads the piece of a text from `at` to `last`, of an event until it ends. Returns the place after what was read, and
-- whether the event ended.
local function read(reader, text, at, last)
  local p, is_event = cast(BYTES, text), reader.is_event
  local line, in_string, below, looked, begun = reader.line, reader.in_string, reader.below, reader.node ~= nil, reader.begun
  local ended = false
  -- The beginning and the end of the last string in this piece, and the beginning of the value that is read.
  local first, stop, from = at, at, at
  if reader.escaped and at < last then
    reader.escaped = false
    if not (is_event and (p[at] == LF or p[at] == CR)) then at = at + 1 end
  end
  while at < last do
    local code = p[at]
    if line ~= DATA then
      if code == LF or code == CR then
        if line ~= LINE then
          line, reader.after_cr = LINE, code == CR
        elseif code == LF and reader.after_cr then
          reader.after_cr = false
        else
          reader.after_cr, ended, at = code == CR, true, at + 1
          break
        end
      elseif line == AFTER_COLON then
        if code ~= SPACE then at = at - 1 end
        line, first, stop, from = DATA, at + 1, at + 1, at + 1
      elseif line == LINE and at + 4 < last and cast(FOUR, p + at)[0] == DATA_FIELD and p[at + 4] == COLON then
        at, line = at + 4, AFTER_COLON
      elseif line < AFTER_COLON and code == FIELD[line] then
        line = line + 1
      elseif line == MARK and code == FIELD[0] then
        line = 1
      elseif line ~= OTHER then
        line = (line == LINE or line == MARK) and (code == 0xef or code == 0xbb or code == 0xbf) and MARK or OTHER
      end
    elseif in_string then
      if code == QUOTE then
        in_string, stop = false, at
      elseif code == BACKSLASH then
        if at + 1 == last then
          reader.escaped = true
        elseif not (is_event and (p[at + 1] == LF or p[at + 1] == CR)) then
          at = at + 1
        end
      elseif is_event and (code == LF or code == CR) then
        line, reader.after_cr = LINE, code == CR
        if looked then
          reader.in_string, reader.below, reader.begun = true, below, begun
          pause(reader, p, text, first, stop, from, at, "\n")
          begun = reader.begun
        end
      else
        -- Most of a response is text.
        while at + 9 <= last do
          local eight = cast(EIGHT, p + at + 1)[0]
          local odd = bor(
            zeros(bxor(eight, QUOTE_IN_EACH)),
            zeros(bxor(eight, BACKSLASH_IN_EACH)),
            band(eight - PAST_CR_IN_EACH, bnot(eight), HIGH_BITS)
          )
          if odd ~= 0 then
            at = at + bytes_before(odd)
            break
          end
          at = at + 8
        end
      end
    elseif STRUCTURE[code] then
      if code == QUOTE then
        in_string, first, stop, begun = true, at + 1, at + 1, ""
      elseif code == OPEN_BRACE or code == OPEN_BRACKET then
        local member = reader.member
        if below > 0 or code == OPEN_BRACKET then
          below = below + 1
        elseif not looked then
          descend(reader, reader.root, at)
          looked = true
        elseif member and member.members and past_space(p, from, at) == at then
          descend(reader, member, at)
        else
          below = below + 1
        end
      elseif code == LF or code == CR then
        if is_event then
          line, reader.after_cr = LINE, code == CR
          if looked then
            reader.in_string, reader.below, reader.begun = false, below, begun
            pause(reader, p, text, first, stop, from, at, "\n")
            begun = reader.begun
          end
        end
      elseif below > 0 then
        if code == CLOSE_BRACE or code == CLOSE_BRACKET then below = below - 1 end
      elseif looked then
        if code == COLON then
          if not reader.member then
            local length, node = stop - first + #begun, reader.node
            local member = length <= LONGEST_NAME and (#begun > 0 or node.known[length * 256 + p[first]])
              and node.members[begun .. sub(text, first + 1, stop)]
            if member then
              reader.member, reader.value, from = member, nil, at + 1
            end
          end
        else
          if reader.member then end_value(reader, p, text, from, at) end
          if code ~= COMMA then
            ascend(reader, at)
            looked = reader.depth > 0
          end
        end
      end
    end
    at = at + 1
  end
  reader.line, reader.in_string, reader.below, reader.begun = line, in_string, below, begun
  -- At the end of a line, or between two, nothing is left to be kept.
  if looked and line == DATA then pause(reader, p, text, first, stop, from, last, "") end
  return at, ended
end

-- Reports the figures that have changed.
local function report(stream)
  local told, reported = stream.told, stream.reported
  for label = 1, #told do
    local figure = told[label]
    if figure ~= reported[label] then
      reported[label] = figure
      -- Fetch the metadata each time: the object is not valid after waiting for the next chunk.
      stream.handle:streamInfo():dynamicMetadata():set("tollgate.usage", stream.dialect.labels[label], figure)
    end
  end
end

-- The streams that hold a part of an event, and how much they hold in total. The streams that were reset since the
-- last count have gone unnoticed, so it is done again once a second if the total seems too large.
local holders = setmetatable({}, { __mode = "k" })
local held, counted_at = 0, 0

local function may_hold(bytes)
  if held + bytes <= MOST_HELD then return true end
  local now = os.time()
  if now == counted_at then return false end
  counted_at = now
  collectgarbage()
  held = 0
  for stream in pairs(holders) do held = held + stream.size end
  return held + bytes <= MOST_HELD
end

-- The parts of the current event that are held, as one text, to be sent or removed.
local function take(stream)
  if stream.size == 0 then return "" end
  local event = table.concat(stream.parts)
  stream.parts, held, stream.size = {}, held - stream.size, 0
  return event
end

-- Holds the next part of the current event, or no more of the event if that is too much. Returns what can be sent.
local function hold(stream, part)
  if stream.size + #part > LONGEST_HELD or not may_hold(#part) then
    stream.holds = false
    return take(stream) .. part
  end
  local parts = stream.parts
  if #parts == MOST_PARTS then
    parts = { table.concat(parts) }
    stream.parts = parts
  end
  parts[#parts + 1] = part
  holders[stream], stream.size, held = true, stream.size + #part, held + #part
  return ""
end

-- Whether the event that has been read holds only usage and is to be removed.
local function is_removed(stream, size)
  return stream.removes and stream.holds and stream.reader.has_usage and stream.reader.is_empty
    and stream.size + size <= LONGEST_HELD
end

-- Whether the usage of the event that has been read is to become null.
local function is_blanked(stream, size)
  local reader = stream.reader
  return stream.blanks and stream.holds and reader.has_usage and reader.has_choices and reader.usage_last ~= nil
    and stream.size + size <= LONGEST_HELD
end

-- The place, from 0, of the next usage that is not null, or nil. Once they are asked for usage, many servers put a
-- null into all other events.
local function find_usage(p, text, from)
  while true do
    local first, past = find(text, '"usage"', from + 1, true)
    if not first then return nil end
    local at = past_space(p, past, #text)
    if p[at] ~= COLON then
      -- Its colon may be in the next line of data.
      if at < #text and p[at] ~= COMMA and p[at] ~= CLOSE_BRACE then return first - 1 end
    elseif p[past_space(p, at + 1, #text)] ~= 110 then
      return first - 1
    end
    from = past
  end
end

-- The place after the last event that ends between `low`, where an event begins, and `at`. Two line ends in a row
-- always end one, whatever is before them.
local function last_end(p, low, at)
  while at > low + 1 do
    local code, before = p[at - 1], p[at - 2]
    if code ~= LF and code ~= CR then
      at = at - 1
    elseif before == LF or before == CR and code == CR then
      return at
    else
      at = at - 1
    end
  end
  return low
end

-- Reads a piece of a stream of events. Returns what is to be sent of it. Of the events that begin and end in it, only
-- those with a usage are read.
local function read_events(stream, text)
  local p, size, reader = cast(BYTES, text), #text, stream.reader
  -- The current event begins at `first`, and what is before `from` is in `out` or removed.
  local out, at, from, first = {}, 0, 0, 0
  local usage = find_usage(p, text, 0)
  while at < size do
    if not stream.is_open then
      if reader.after_cr and p[at] == LF then
        -- The second half of the line end that ended an event is sent or removed with it.
        at = at + 1
        if stream.removed then from = at end
        reader.after_cr = false
      end
      local began = at
      if usage and usage < at then usage = find_usage(p, text, at) end
      at = last_end(p, at, usage or size)
      while at < size and (p[at] == LF or p[at] == CR) do at = at + 1 end
      if at > began then stream.removed, reader.after_cr = false, p[at - 1] == CR end
      if at == size then break end
      reset(reader)
      first, stream.is_open, stream.holds = at, true, stream.removes or stream.blanks
    end
    reader.base = stream.size - first
    local past, ended = read(reader, text, at, size)
    if ended then
      stream.is_open, stream.removed = false, is_removed(stream, past - first)
      if stream.removed then
        if first > from then out[#out + 1] = sub(text, from + 1, first) end
        take(stream)
        from = past
      elseif is_blanked(stream, past - first) then
        if first > from then out[#out + 1] = sub(text, from + 1, first) end
        local event = take(stream) .. sub(text, first + 1, past)
        out[#out + 1] = sub(event, 1, reader.usage_first) .. "null" .. sub(event, reader.usage_last + 2)
        from = past
      elseif stream.size > 0 then
        out[1] = take(stream)
      end
    elseif stream.holds then
      if first > from then out[#out + 1] = sub(text, from + 1, first) end
      out[#out + 1], from = hold(stream, sub(text, first + 1)), size
    end
    at = past
  end
  if from == 0 and #out == 0 then return text end
  out[#out + 1] = sub(text, from + 1)
  return table.concat(out)
end

-- Handles the end of a response, and of its last event. Returns what is to be sent of that.
local function end_events(stream)
  local removed = is_removed(stream, 0)
  local rest = take(stream)
  return removed and "" or rest
end

-- The first byte of a response that belongs neither to a byte-order mark nor to white space.
local function first_byte(text)
  return byte(text, match(text, "^[\239\187\191 \t\r\n]*()"))
end

-- The longest JSON response that is held, in bytes.
local LONGEST_ANSWER = 1048576

local function is_short_json(headers)
  local length = tonumber(headers:get("content-length") or "")
  return length ~= nil and length <= LONGEST_ANSWER and find((headers:get("content-type") or ""):lower(), "json", 1, true) ~= nil
end

local function no_figures(spoken)
  local list = {}
  for label = 1, #spoken.labels do list[label] = false end
  return list
end

-- Reads a piece of a response. Returns what is to be sent of it.
local function read_piece(stream, text)
  local sent = text
  if stream.is_json == nil then
    local first = first_byte(text)
    if first then stream.is_json = first == OPEN_BRACE or first == OPEN_BRACKET end
    if stream.is_json then
      -- White space before it was taken for the beginning of an event.
      sent = take(stream) .. text
      stream.opens = first == OPEN_BRACKET
      stream.reader = new_reader(stream.dialect.answer, stream.opens and no_figures(stream.dialect) or stream.told, false)
      -- The figures of the objects in a list add up. Of each object the last usage counts.
      stream.reader.sums = stream.opens and stream.told or nil
    end
  end
  if stream.is_json then
    local at = 0
    if stream.opens then
      -- Skipped here: the compiler keeps the loop over bytes fast only as long as it is short.
      at = match(text, "^[\239\187\191 \t\r\n%[]*()") - 1
      stream.opens = at == #text
    end
    read(stream.reader, text, at, #text)
  else
    sent = read_events(stream, text)
  end
  report(stream)
  return sent
end

local function new_stream(handle, anthropic, removes, blanks)
  local spoken = anthropic and ANTHROPIC or OPENAI
  local told, reported = no_figures(spoken), no_figures(spoken)
  return {
    handle = handle,
    dialect = spoken,
    -- The figures read so far, and those reported.
    told = told,
    reported = reported,
    reader = new_reader(spoken.event, told, true),
    removes = removes,
    blanks = blanks,
    -- Whether the response is JSON, and a list of which nothing but the beginning has come. Unknown before its first byte.
    is_json = nil,
    opens = false,
    -- Whether an event has begun and not ended; whether it is held, the parts of it and their size; whether the last one
    -- was removed.
    is_open = false,
    holds = false,
    parts = {},
    size = 0,
    removed = false,
  }
end

local function meter(handle, anthropic, removes, blanks, short)
  local stream = new_stream(handle, anthropic, removes, blanks)
  if short then
    local body = handle:body()
    if body then read_piece(stream, body:getBytes(0, body:length())) end
    return
  end
  for chunk in handle:bodyChunks() do
    local length = chunk:length()
    if length == 0 then
      -- The end of the response, and of its last event.
      local rest = end_events(stream)
      if rest ~= "" then chunk:setBytes(rest) end
    else
      local text = chunk:getBytes(0, length)
      local sent = read_piece(stream, text)
      if sent ~= text then chunk:setBytes(sent) end
    end
  end
end

-- The compiler keeps its code in the form that the first responses gave it, and with an unfortunate form a response
-- can take ten times as long. So it first sees the loop over bytes alone, then the one over text, then texts of nothing but
-- escapes, lists, or members whose names may be known and those whose may not, and then usual responses.
local SPACES = "{" .. (" "):rep(4000) .. "}"
local TEXT = '{"a":"' .. ("Hello, how are you? "):rep(200) .. '"}'
local ESCAPES = '{"a":"' .. ('\\\\\\"'):rep(500) .. '"}'
local ARRAYS = '{"a":[' .. ("[],"):rep(500) .. "1]}"
local MEMBERS = "{" .. ('"name":1,'):rep(300) .. ('"usual":1,'):rep(300) .. '"name":1}'
for _, text in ipairs({ SPACES, TEXT, ESCAPES, ARRAYS, MEMBERS }) do
  read(new_reader(OPENAI.answer, no_figures(OPENAI), false), text, 0, #text)
end
local ANSWER = '{"choices":[' .. ('{"index":0,"message":{"role":"assistant","content":"Hello"}},'):rep(200) .. '{}]}'
local EVENTS = ('data: {"choices":[{"index":0,"delta":{"content":"Hello"}}]}\n\n'):rep(10)
  .. 'data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}}\n\ndata: [DONE]\n\n'
for _ = 1, 20 do
  read(new_reader(OPENAI.answer, no_figures(OPENAI), false), ANSWER, 0, #ANSWER)
  read_events(new_stream(nil, false, true, false), EVENTS)
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
  local body = metadata:get("tollgate.body")
  if check.credential and not (body and body.refused) then
    local refusal = handle:headers():get(":status")
    if refusal == "401" or refusal == "403" then return hide_refusal(handle, check.dialect == "anthropic") end
  end
  local removes = body ~= nil and body.usage_added == true
  local blanks = body ~= nil and body.usage_in_each == true
  if not check.metered and not removes then return end
  local headers = handle:headers()
  local status = headers:get(":status")
  if sub(status, 1, 1) ~= "2" then return end
  -- What is not reported is estimated, from the bytes of a stream or of text.
  if check.estimate and find((headers:get("content-type") or ""):lower(), "event-stream", 1, true) then
    metadata:set("tollgate.usage", "streamed", true)
  end
  -- It would be wrong once an event is removed.
  local short = is_short_json(headers)
  if (removes or blanks) and not short then headers:remove("content-length") end
  local fine, problem = pcall(meter, handle, check.dialect == "anthropic", removes, blanks, short)
  if not fine then handle:logErr(tostring(problem)) end
end
