-- Reads the usage that a response reports while the response passes. Holds only incomplete lines of an event that it
-- may have to remove, and a short JSON response with a content-length, so that one that breaks off is an error instead
-- of half a response.
--
-- The figures go into the line that line.lua writes: `total_tokens` of `usage` and its parts by type. With the dialect
-- "anthropic" in Check's metadata they are the four figures of a message; those at the start of a stream have the
-- prefix `start_`. If the tokens of a stream may have to be estimated, `text_bytes` has the length of the generated
-- text. No script runs when a client disconnects, so the figures of a stream so far are in the metadata
-- `tollgate.line`, too, for Envoy's own log.
--
-- The first byte of a response determines its format, regardless of its content-type: with a brace or bracket it is
-- JSON, or lines of JSON, of which the last usage counts; in a list of answers all count, because llama.cpp answers
-- each of `n` on its own. Otherwise it is a stream of events
-- (https://html.spec.whatwg.org/multipage/server-sent-events.html). Only the structure of JSON is followed, so a NaN
-- beside the usage does no harm.
--
-- If request-body.lua asked for usage and the client did not, the lines of a text that has nothing else are removed,
-- and their event, too, if it has no other data. A text with empty choices and something else, such as an error, loses
-- only its usage. If usage was requested in each event, the usage of a text with choices becomes null, as from a server
-- that reports it only at the end. Many servers and clients treat each line of data as an event, however lines are
-- separated, so a line is forwarded when it is complete, not when its event is.
--
-- Envoy's overload manager does not see Lua's memory, so between two chunks the script stores only its position in the
-- structure, and lines that may have to be removed, up to 64 KiB.

-- The loop over bytes has more than a hundred side traces, the compiler's default maximum; the rest would be
-- interpreted from then on, for all responses.
jit.opt.start("maxside=1000", "maxmcode=2048")

local ffi, new_table = require("ffi"), require("table.new")
local byte, find, format, match, sub, concat = string.byte, string.find, string.format, string.match, string.sub, table.concat
local cast, band, bnot, bor, bxor, lshift, rshift = ffi.cast, bit.band, bit.bnot, bit.bor, bit.bxor, bit.lshift, bit.rshift

local QUOTE, BACKSLASH, COMMA, COLON, SPACE = 34, 92, 44, 58, 32
local OPEN_BRACE, CLOSE_BRACE, OPEN_BRACKET, CLOSE_BRACKET = 123, 125, 91, 93
local LF, CR, TAB = 10, 13, 9

-- Whether spans get figures as tags, from the metadata `tollgate.usage`; the service fills it in.
local IS_TRACED = false

-- The members of a usage that are reported, and their names in a line.
local TOTAL = {
  total_tokens = "total_tokens",
  prompt_tokens = "prompt_tokens",
  completion_tokens = "completion_tokens",
  -- Of the Responses API.
  input_tokens = "prompt_tokens",
  output_tokens = "completion_tokens",
  cached_tokens = "cached_tokens",
  -- Of DeepSeek, and of Mistral.
  prompt_cache_hit_tokens = "cached_tokens",
  num_cached_tokens = "cached_tokens",
  cache_write_tokens = "cache_write_tokens",
  cache_creation_tokens = "cache_write_tokens",
  -- Of SGLang.
  reasoning_tokens = "details_reasoning_tokens",
  -- Of an answer in Anthropic's form.
  cache_creation_input_tokens = "cache_creation_input_tokens",
  cache_read_input_tokens = "cache_read_input_tokens",
}
local MESSAGE = {
  input_tokens = "input_tokens",
  cache_creation_input_tokens = "cache_creation_input_tokens",
  cache_read_input_tokens = "cache_read_input_tokens",
  output_tokens = "output_tokens",
  -- Of an answer in OpenAI's form.
  total_tokens = "total_tokens",
  prompt_tokens = "prompt_tokens",
  completion_tokens = "completion_tokens",
}
-- The members of an entry of a usage's `iterations`, which add up.
local ITERATION = { "input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "type" }
-- The members of the details of a usage that are reported.
local DETAIL = {
  cached_tokens = "details_cached_tokens",
  cache_write_tokens = "details_cache_write_tokens",
  cache_creation_tokens = "details_cache_write_tokens",
  -- Of Qwen and of Envoy AI Gateway.
  cache_creation_input_tokens = "details_cache_write_tokens",
  reasoning_tokens = "details_reasoning_tokens",
}
-- Members that contain such details.
local DETAILS = {
  prompt_tokens_details = DETAIL,
  -- Of Mistral.
  prompt_token_details = DETAIL,
  completion_tokens_details = DETAIL,
  input_tokens_details = DETAIL,
  output_tokens_details = DETAIL,
}
local MESSAGE_DETAILS = { output_tokens_details = { thinking_tokens = "details_reasoning_tokens" } }

-- The longest figure that is read, in bytes.
local LONGEST_FIGURE = 1024
local LONGEST_NAME = 32
-- Maximum size held of an event, in bytes. A longer event has more than usage.
local LONGEST_HELD = 65536
-- Maximum size held of all events on this thread, in bytes. ENVOY_HEAP_BYTES leaves room for it and for garbage.
local MOST_HELD = 4194304
-- Maximum number of parts of an event before they are joined.
local MOST_PARTS = 64

-- The members to find, as a tree. A node describes its value: a `figure`, by its index in the labels of the dialect;
-- the `choices`; a `usage` or another object, with the members to find in it. An event also has the members that mean
-- nothing to the client except with other data (SILENT), and MORE for all others.
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

-- A node for an object. `known` excludes most names by their length and first byte.
local function object_node(members)
  local known = ffi.new("bool[?]", (LONGEST_NAME + 1) * 256)
  for name in pairs(members) do known[#name * 256 + byte(name)] = true end
  return { members = members, known = known }
end

-- A node for an object in a list. Its figures have indexes after all labels', from `behind` + 1 on.
local function item_node(behind, names)
  local members = {}
  for place, name in ipairs(names) do members[name] = { figure = behind + place } end
  local node = object_node(members)
  node.is_item = true
  return node
end

-- Maximum number of labels of a dialect; the index of the place of a choice among figures.
local MOST_LABELS = 24
local CHOICE = MOST_LABELS + #ITERATION + 1
local ITEM = item_node(MOST_LABELS, ITERATION)
local ITERATIONS = { item = ITEM }

-- `rank`: of several usages of a response, the lowest counts.
local function usage_node(labels, fields, details, prefix, rank)
  local members = figures(labels, fields, prefix)
  for name, more in pairs(details) do members[name] = object_node(figures(labels, more, prefix)) end
  members.iterations = ITERATIONS
  local node = object_node(members)
  node.usage, node.rank = true, rank
  node.total, node.prompt, node.completion = labels[prefix .. "total_tokens"], labels[prefix .. "prompt_tokens"], labels[prefix .. "completion_tokens"]
  node.reasoning = labels[prefix .. "details_reasoning_tokens"]
  -- The labels of the sums of its iterations.
  node.sums = {}
  for place = 1, 4 do node.sums[place] = labels[prefix .. fields[ITERATION[place]]] end
  return node
end

local SILENT, MORE = { silent = true }, { more = true }

-- A node for the object of an event.
local function event_node(members, choices)
  for _, name in ipairs({ "id", "object", "created", "model", "system_fingerprint", "service_tier", "obfuscation" }) do
    members[name] = SILENT
  end
  members.choices = choices
  local node = object_node(members)
  node.notes_more = true
  return node
end

local function dialect(fields, details, parents)
  local labels = {}
  local usage = usage_node(labels, fields, details, "", 1)
  -- For Kimi, and for Groq.
  local choice = object_node({ usage = usage_node(labels, fields, details, "", 2), index = { figure = CHOICE } })
  choice.is_item = true
  local choices = { choices = true, item = choice }
  local groq = object_node({ usage = usage_node(labels, fields, details, "", 3) })
  groq.is_more = true
  local event = { usage = usage, x_groq = groq }
  for parent, prefix in pairs(parents) do
    local inner = object_node({ usage = usage_node(labels, fields, details, prefix, 1) })
    inner.is_more = true
    event[parent] = inner
  end
  return {
    labels = labels,
    answer = object_node({ usage = usage, choices = choices, x_groq = groq, data = { data = true } }),
    event = event_node(event, choices),
  }
end

local OPENAI = dialect(TOTAL, DETAILS, { response = "", message = "" })
local ANTHROPIC = dialect(MESSAGE, MESSAGE_DETAILS, { message = "start_" })
ANTHROPIC.answer.is_message, ANTHROPIC.event.is_message = true, true
-- The value of a usage that was an object and has ended.
local COMPLETE = { complete = true }

-- Eight bytes at once. In the results, the lowest high bit that is set marks the first byte that matches; higher bits
-- may be wrong.
local BYTES, FOUR, EIGHT = ffi.typeof("const uint8_t*"), ffi.typeof("const uint32_t*"), ffi.typeof("const uint64_t*")
local ONES, HIGH_BITS = 0x0101010101010101ULL, 0x8080808080808080ULL
local COLON_IN_EACH, SPACE_IN_EACH = ONES * COLON, ONES * SPACE
local QUOTE_IN_EACH, BACKSLASH_IN_EACH, PAST_CR_IN_EACH = ONES * QUOTE, ONES * BACKSLASH, ONES * (CR + 1)
local LOW_BITS, LF_IN_EACH, CR_IN_EACH = bnot(HIGH_BITS), ONES * LF, ONES * CR

local function zeros(eight)
  return band(eight - ONES, bnot(eight), HIGH_BITS)
end

-- As `zeros`, but all bits are right.
local function all_zeros(eight)
  return bnot(bor(band(eight, LOW_BITS) + LOW_BITS, eight, LOW_BITS))
end

local function bytes_before(high_bits)
  return tonumber(rshift(band(band(high_bits, -high_bits) - 1, ONES) * ONES, 56)) - 1
end

-- Which of eight bytes of a string end it, or are more than text.
local function odd_bytes(p, at)
  local eight = cast(EIGHT, p + at)[0]
  return bor(
    zeros(bxor(eight, QUOTE_IN_EACH)),
    zeros(bxor(eight, BACKSLASH_IN_EACH)),
    band(eight - PAST_CR_IN_EACH, bnot(eight), HIGH_BITS)
  )
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

-- The state within a line of an event: at its beginning, after one to four bytes of "data:", after all of them, in its
-- data, in a line of another kind, after a byte-order mark, which may precede the first line, after some bytes of
-- "event:" or "id:", or after all of them.
local LINE, AFTER_COLON, DATA, OTHER, MARK, EVENT, ID, NAMED = 0, 5, 6, 7, 8, 9, 14, 16
local FIELD = ffi.new("uint8_t[5]", { byte("data:", 1, 5) })
local DATA_FIELD = cast(FOUR, FIELD)[0]
-- The state after one more byte other than a line end. After the colon of data the first byte may be a space.
local AFTER = ffi.new("uint8_t[?]", (NAMED + 1) * 256)
for line = 0, NAMED do
  for code = 0, 255 do AFTER[line * 256 + code] = line == NAMED and NAMED or OTHER end
end
for line = 0, 4 do AFTER[line * 256 + FIELD[line]] = line + 1 end
for _, code in ipairs({ 0xef, 0xbb, 0xbf }) do AFTER[LINE * 256 + code], AFTER[MARK * 256 + code] = MARK, MARK end
AFTER[MARK * 256 + FIELD[0]] = 1
for first, name in pairs({ [EVENT] = "event:", [ID] = "id:" }) do
  AFTER[LINE * 256 + byte(name)] = first
  for i = 2, #name do AFTER[(first + i - 2) * 256 + byte(name, i)] = i == #name and NAMED or first + i - 1 end
end
local NULL = cast(FOUR, ffi.new("uint8_t[4]", { byte("null", 1, 4) }))[0]

-- A reader of JSON texts that arrive in chunks, or of those in the data of events: an object, which may continue in the
-- next line of data, or any content of a line. It collects the figures of each usage in `told`, and notes the other
-- content of the last text.
local function new_reader(root, told, is_event)
  return {
    root = root,
    told = told,
    is_event = is_event,
    -- The state within the line, and whether the last byte was the CR of a line end, which an LF may follow.
    line = is_event and LINE or DATA,
    after_cr = false,
    -- Whether it stops after each line, and not only after an event or a line that ends a text with usage; whether a
    -- part of the event is held; whether the client has received a part of it that needs its end; whether lines with
    -- its name, its id or empty data wait for its data; the position before which nothing has to be held.
    stops = false,
    holds = false,
    has_begun = false,
    has_names = false,
    sent = 0,
    -- Whether the text has a usage, empty choices, choices, other members that are not null; whether it is no object.
    has_usage = false,
    is_empty = false,
    has_choices = false,
    has_more = false,
    is_other = false,
    -- The positions of the chunk, of the object and of its usage, all from the beginning of the held bytes, or of the
    -- chunk if there are none.
    base = 0,
    first = nil,
    last = nil,
    usage_first = nil,
    usage_last = nil,
    -- The node of the object that is open, the nodes around it and their number, and the number of other containers
    -- that are open in it.
    node = nil,
    outer = {},
    depth = 0,
    below = 0,
    in_string = false,
    escaped = false,
    -- The beginning of the last string in earlier chunks, if it may be a name.
    begun = "",
    -- The node of the member whose value is being read, and the beginning of the value in earlier chunks.
    member = nil,
    value = nil,
    -- The figures of the usage that is open, by label; false for figures that it lacks. The labels of the figures that
    -- it has, and their number.
    figures = new_table(CHOICE, 0),
    given = new_table(MOST_LABELS, 0),
    count = 0,
    -- The rank of the usage in `told`, if it is usable; whether the answer has data, as embeddings have.
    rank = nil,
    has_data = false,
    -- The sums of the iterations of the usage that is open; the members whose lists are open, by depth; whether the
    -- first choice was read.
    iterations = nil,
    lists = {},
    has_choice = false,
    -- If the usage of an event is that of its choice: the number of choices of a prompt, the figures of the text's
    -- usage, and the sums of the last figures of all prompts and choices.
    choices = nil,
    own_prompt = nil,
    own_output = nil,
    prompts = nil,
    outputs = nil,
  }
end

local PLACES = { "first", "last", "usage_first", "usage_last" }

-- Prepares for the next text.
local function forget(reader)
  reader.has_usage, reader.is_empty, reader.has_choices, reader.has_more, reader.is_other = false, false, false, false, false
  reader.first, reader.last, reader.usage_first, reader.usage_last = nil, nil, nil, nil
  reader.has_choice, reader.own_prompt, reader.own_output, reader.figures[CHOICE] = false, nil, nil, false
end

-- Prepares for the next event.
local function reset(reader)
  reader.line, reader.after_cr, reader.has_begun, reader.has_names = LINE, false, false, false
  forget(reader)
  reader.node, reader.depth, reader.below, reader.in_string, reader.escaped = nil, 0, 0, false, false
  reader.begun, reader.member, reader.value = "", nil, nil
end

-- Prepares for the next response.
local function renew(reader, told)
  reset(reader)
  for place = 1, reader.count do reader.figures[reader.given[place]] = false end
  reader.told, reader.line = told, reader.is_event and LINE or DATA
  reader.count, reader.rank, reader.has_data = 0, nil, false
end

-- The first digits of the smallest number that is read as infinite; it has 309.
local INFINITE = "179769313486231580793728971405"

-- The value as a number, nil if it is none or exceeds a double. Computed from its digits, because tonumber takes 50
-- microseconds for 1e300. No counter holds 1e21 or a fraction, so all such numbers become -1.
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
  -- The remaining digits matter only if one of them is not 0.
  local kept = sub(digits, first, first + 69)
  if find(digits, "[1-9]", first + 70) then kept = kept .. "1" end
  return tonumber(kept .. "e" .. magnitude - #kept + 1)
end

-- The text of a value as a figure, or nil. A string remains a string, which the service ignores.
local function to_figure(text)
  return to_number(text) or match(text, '^"([%w_.+-]*)"$')
end

-- The number between two positions if it is whole and has at most 15 digits, with or without an exponent; nil for most
-- others.
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

-- Whether a value is null, or the NaN that some servers write instead.
local function is_nothing(p, first, last)
  if last - first == 4 then return cast(FOUR, p + first)[0] == NULL end
  return last - first == 3 and p[first] == 78 and p[first + 1] == 97 and p[first + 2] == 78
end

-- Notes whether the value between two positions, of the choices or of a member that is not looked for, is not empty.
local function judge_value(reader, member, p, first, last)
  first = past_space(p, first, last)
  last = before_space(p, first, last)
  local is_empty = is_nothing(p, first, last)
  if member == MORE then
    reader.has_more = not is_empty
  else
    is_empty = is_empty or last - first > 1 and p[first] == OPEN_BRACKET and past_space(p, first + 1, last) == last - 1
      and p[last - 1] == CLOSE_BRACKET
    reader.is_empty, reader.has_choices = is_empty, not is_empty
  end
end

-- Sets a figure of the usage that is open, or of one of its iterations.
local function give(reader, label, figure)
  if not reader.figures[label] and label <= MOST_LABELS then
    reader.count = reader.count + 1
    reader.given[reader.count] = label
  end
  reader.figures[label] = figure
end

-- Whether a figure is a whole number that can be counted.
local function is_usable(figure)
  return type(figure) == "number" and figure >= 0 and figure % 1 == 0 and figure <= 9007199254740991
end

-- Adds the figures of an iteration to the sums of its usage. `silent` has the figures of attempts without output.
local function add_iteration(reader)
  local figures, sums = reader.figures, reader.iterations
  if not sums then
    sums = { 0, 0, 0, 0, silent = { 0, 0, 0, 0 }, is_usable = true, has_fallback = false }
    reader.iterations = sums
  end
  local kind, output = figures[MOST_LABELS + 5], figures[MOST_LABELS + 2]
  sums.has_fallback = sums.has_fallback or kind == "fallback_message"
  for place = 1, 4 do
    local figure = figures[MOST_LABELS + place]
    if not figure and place > 2 then figure = 0 end
    if not is_usable(figure) then
      sums.is_usable = false
      return
    end
    sums[place] = sums[place] + figure
    if output == 0 and (kind == "message" or kind == "fallback_message") then sums.silent[place] = sums.silent[place] + figure end
  end
end

-- The iterations of a usage replace its own figures if they are usable. If a fallback replaced a declined attempt,
-- attempts without output add nothing.
local function use_iterations(reader, node)
  local sums, figures = reader.iterations, reader.figures
  if not sums or not sums.is_usable then return false end
  for place = 1, 4 do
    local label = node.sums[place]
    give(reader, label, sums[place] - (sums.has_fallback and sums.silent[place] or 0))
  end
  figures[node.total] = false
  return true
end

-- xAI reports reasoning beside the rest of the output: then it is added to it, as others report it.
local function add_reasoning(figures, node)
  local prompt, output, reasoning = figures[node.prompt], figures[node.completion], figures[node.reasoning]
  if not (is_usable(reasoning) and reasoning > 0 and is_usable(prompt) and is_usable(output)) then return end
  if figures[node.total] == prompt + output + reasoning then figures[node.completion] = output + reasoning end
end

-- Stores the figures of a usage that has ended in `told`. Of several, the one of the lowest rank counts, and at equal
-- rank the last, but an unusable figure or 0 replaces none. A total is only valid with its own parts.
local function tell(reader, node)
  local figures, told, given = reader.figures, reader.told, reader.given
  local is_sum = use_iterations(reader, node)
  add_reasoning(figures, node)
  if reader.choices and node == reader.root.members.usage then
    local prompt, output, total = figures[node.prompt], figures[node.completion], figures[node.total]
    prompt, output = is_usable(prompt) and prompt or 0, is_usable(output) and output or 0
    -- What a total has beside its parts is output.
    if is_usable(total) then output = math.max(output, total - prompt) end
    reader.own_prompt, reader.own_output = prompt, output
  end
  -- A message has no total of its own.
  if reader.root.is_message and not (figures[node.prompt] or figures[node.completion]) then figures[node.total] = false end
  local has_more, total = false, figures[node.total]
  for place = 1, reader.count do
    local figure = figures[given[place]]
    if given[place] ~= node.total and is_usable(figure) and figure > 0 then has_more = true end
  end
  local is_real = has_more or is_usable(total) and total > 0
  if is_real then
    if reader.rank and node.rank > reader.rank then return end
    if is_sum or reader.rank and node.rank < reader.rank then
      for label = 1, #told do told[label] = false end
    end
    reader.rank = node.rank
  elseif reader.rank then
    return
  end
  for place = 1, reader.count do
    local label = given[place]
    local figure = figures[label]
    if label ~= node.total and not (is_usable(told[label]) and (not is_usable(figure) or figure == 0)) then
      told[label] = figure
    end
  end
  if is_usable(total) and (total > 0 or not has_more) or not is_real and total then
    told[node.total] = total
  elseif has_more then
    told[node.total] = false
  end
end

-- Handles the end of the value that is read, whose text from `first` to `last` was not stored.
local function end_value(reader, p, text, first, last)
  local member = reader.member
  reader.member = nil
  if member == COMPLETE then
    reader.has_usage = true
    return tell(reader, reader.ended)
  end
  local label = member.figure
  if label and not reader.value then
    first = past_space(p, first, last)
    last = before_space(p, first, last)
    local figure = short_number(p, first, last)
    if figure then
      give(reader, label, figure)
      return
    end
  end
  if (member == MORE or member.choices) and not reader.value then return judge_value(reader, member, p, first, last) end
  if not label and not member.choices and member ~= MORE then return end
  keep_value(reader, text, first, last, "")
  local value = reader.value
  reader.value = nil
  if member.choices or member == MORE then
    judge_value(reader, member, cast(BYTES, value), 0, #value)
  elseif #value <= LONGEST_FIGURE then
    local inner = cast(BYTES, value)
    first = past_space(inner, 0, #value)
    local figure = to_figure(sub(value, first + 1, before_space(inner, first, #value)))
    if figure then give(reader, label, figure) end
  end
end

local STRUCTURE = ffi.new("bool[256]")
for _, code in ipairs({ QUOTE, COMMA, COLON, OPEN_BRACE, CLOSE_BRACE, OPEN_BRACKET, CLOSE_BRACKET, LF, CR }) do
  STRUCTURE[code] = true
end

-- Whether the other objects in a list do not matter: after the first choice, or an iteration that is not usable.
local function passes_over(reader, member)
  if member.choices then return reader.has_choice end
  return reader.iterations ~= nil and not reader.iterations.is_usable
end

-- Handles a brace at `at` that opens an object to read: `node`, or the text itself.
local function descend(reader, node, at)
  reader.depth = reader.depth + 1
  reader.outer[reader.depth] = reader.node
  reader.node, reader.member = node, nil
  if reader.depth == 1 then
    forget(reader)
    reader.first = reader.base + at
  end
  if node.usage then
    -- Only the usage of the text itself may be removed: servers send other ones unasked.
    if reader.depth == 2 then reader.usage_first, reader.usage_last = reader.base + at, nil end
    reader.iterations = nil
    for place = 1, reader.count do reader.figures[reader.given[place]] = false end
    reader.count = 0
  elseif node == ITEM then
    for label = MOST_LABELS + 1, MOST_LABELS + #ITERATION do reader.figures[label] = false end
  end
end

-- Whether an object at `at`, outside of any other, is read. In an event, an object must begin its line of data: a brace
-- after other text, left open, would hide the rest. Outside of events there are lines of JSON and lists.
local function opens_text(reader, p, from, at)
  return not reader.is_event or reader.first or not reader.is_other and past_space(p, from, at) == at
end

-- Adds a figure of the next object in a list to the sum of the previous ones. A figure that is no count invalidates the
-- sum.
local function sum_of(before, figure)
  if not (before and figure) then return before or figure end
  if type(before) ~= "number" or type(figure) ~= "number" or before < 0 or figure < 0 then return -1 end
  return before + figure
end

-- Adds the figures of an object of a list to the sums of the previous ones.
local function add_up(told, sums)
  for label = 1, #told do
    sums[label], told[label] = sum_of(sums[label], told[label]), false
  end
end

-- Choices from this one on are summed as one.
local LAST_CHOICE = 16384

-- Sets the last figure of a choice or prompt, which 0 does not replace.
local function set_part(sum, place, figure)
  local before = sum[place]
  if not before then sum.count = sum.count + 1 elseif figure == 0 then return end
  sum.all, sum[place] = sum.all - (before or 0) + figure, figure
end

-- Adds the figures of an event with a choice to those of all others. While all are of one choice, what the server reports
-- counts as it is. At its end a stream reports them together, in an event without a choice.
local function add_choice(reader)
  local place = reader.figures[CHOICE]
  -- Some servers omit an index of 0.
  place = is_usable(place) and math.min(place, LAST_CHOICE) or 0
  local told, usage, prompts, outputs = reader.told, reader.root.members.usage, reader.prompts, reader.outputs
  set_part(prompts, math.floor(place / reader.choices), reader.own_prompt)
  set_part(outputs, place, reader.own_output)
  if outputs.count == 1 then return end
  told[usage.prompt], told[usage.completion], told[usage.total] = prompts.all, outputs.all, prompts.all + outputs.all
end

-- Handles the end of the text's object.
local function end_object(reader, at)
  reader.last = reader.base + at
  if reader.own_prompt and reader.has_choices then add_choice(reader) end
  if reader.has_data then
    -- Embeddings have no output.
    local told, usage = reader.told, reader.root.members.usage
    if told[usage.prompt] and not told[usage.completion] then told[usage.completion] = 0 end
    reader.has_data = false
  end
  if reader.sums then
    add_up(reader.told, reader.sums)
    reader.rank = nil
  end
end

-- Handles the closing brace at `at` of such an object.
local function ascend(reader, at)
  local node = reader.node
  reader.member = nil
  if node.usage then
    if reader.depth == 2 then reader.usage_last = reader.base + at end
    reader.member, reader.ended = COMPLETE, node
  elseif node.is_item then
    if node == ITEM then add_iteration(reader) else reader.has_choice = true end
    reader.member = reader.lists[reader.depth]
  end
  reader.node = reader.outer[reader.depth]
  reader.depth = reader.depth - 1
  if reader.depth == 0 then end_object(reader, at) end
end

-- Stores the state that the next chunk or line of data needs: the value so far, and the last string, because its colon
-- may follow. `last` is the end of this one; `joint` joins it with the next.
local function pause(reader, p, text, first, stop, from, last, joint)
  local member = reader.member
  if member and member.members then
    -- Only objects are read.
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

-- Handles the colon after a name, a part of which was in earlier chunks. Returns whether the value is read.
local function end_name(reader, p, text, begun, first, stop)
  if reader.member then return false end
  local length, node = stop - first + #begun, reader.node
  local member = length <= LONGEST_NAME and (#begun > 0 or node.known[length * 256 + p[first]])
    and node.members[begun .. sub(text, first + 1, stop)]
  if not member and node.notes_more and not reader.has_more then member = MORE end
  if not member or member == SILENT then return false end
  if member.is_more then reader.has_more = true elseif member.data then reader.has_data = true end
  reader.member, reader.value = member, nil
  return true
end

-- Reads a chunk of a text from `at` to `last`; of events, until it stops after a line. Returns the position after the
-- read part, and the state in the line at its end: LINE for the empty line after an event, DATA if the line ends a
-- text, AFTER_COLON if its data is empty; nil at the end of the chunk.
local function read(reader, text, at, last)
  local p, is_event = cast(BYTES, text), reader.is_event
  local line, in_string, below, looked, begun = reader.line, reader.in_string, reader.below, reader.node ~= nil, reader.begun
  local stops, begun_event = reader.stops, reader.has_begun
  local pending = reader.holds or reader.has_names
  local ended = nil
  -- The beginning and the end of the last string in this chunk, and the beginning of the value that is read.
  local first, stop, from = at, at, at
  if reader.escaped and at < last then
    reader.escaped = false
    if not (is_event and (p[at] == LF or p[at] == CR)) then at = at + 1 end
  end
  while at < last do
    local code = p[at]
    if line ~= DATA then
      if code == LF or code == CR then
        if line == LINE and code == LF and reader.after_cr then
          reader.after_cr = false
        else
          reader.after_cr = code == CR
          local is_name = line == NAMED or line == AFTER_COLON
          if line == LINE or stops and (is_name and begun_event or pending and not is_name) then
            ended, line, at = line, LINE, at + 1
            break
          end
          -- The line waits for the data of its event.
          if is_name and stops then pending, reader.has_names = true, true end
          line = LINE
        end
        if not looked and not pending then reader.sent = at + 1 end
      elseif line == AFTER_COLON then
        if code ~= SPACE then at = at - 1 end
        line, first, stop, from = DATA, at + 1, at + 1, at + 1
      elseif line == LINE and at + 5 < last and cast(FOUR, p + at)[0] == DATA_FIELD and p[at + 4] == COLON then
        if p[at + 5] == SPACE then
          at, line = at + 5, DATA
          first, stop, from = at + 1, at + 1, at + 1
        else
          at, line = at + 4, AFTER_COLON
        end
      else
        line = AFTER[line * 256 + code]
        if line == OTHER or line == NAMED then
          -- The rest of the line does not matter.
          while at + 1 < last and p[at + 1] ~= LF and p[at + 1] ~= CR do at = at + 1 end
        end
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
        else
          -- Anything but an object ends with its line.
          in_string, below = false, 0
          if reader.stops or reader.has_usage then
            ended, at = DATA, at + 1
            break
          end
          reader.first, reader.last, reader.is_other = nil, nil, false
        end
      else
        -- Most of a response is text.
        while at + 9 <= last do
          local odd = odd_bytes(p, at + 1)
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
        if at + 9 <= last then
          -- Most strings are short.
          local odd = odd_bytes(p, at + 1)
          at = at + (odd ~= 0 and bytes_before(odd) or 8)
          if odd ~= 0 and p[at + 1] == QUOTE then
            in_string, at = false, at + 1
            stop = at
            if below == 0 and looked and at + 1 < last and p[at + 1] == COLON then
              at = at + 1
              if end_name(reader, p, text, "", first, stop) then from = at + 1 end
            end
          end
        end
      elseif code == OPEN_BRACE or code == OPEN_BRACKET then
        local member = reader.member
        if below == 1 and code == OPEN_BRACE and member and member.item and not passes_over(reader, member) then
          -- The choices are not empty.
          reader.value = "[{"
          descend(reader, member.item, at)
          reader.lists[reader.depth], below = member, 0
        elseif below > 0 or code == OPEN_BRACKET then
          below = below + 1
        elseif not looked then
          if opens_text(reader, p, from, at) then
            descend(reader, reader.root, at)
            looked = true
          else
            below = 1
          end
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
          else
            below = 0
            if reader.stops or reader.has_usage then
              local kind = (reader.last or reader.is_other or past_space(p, from, at) < at) and DATA or AFTER_COLON
              if kind == DATA or reader.has_begun then
                ended, at = kind, at + 1
                break
              end
              pending, reader.has_names = true, true
            else
              reader.first, reader.last, reader.is_other = nil, nil, false
            end
          end
        end
      elseif below > 0 then
        if code == CLOSE_BRACE or code == CLOSE_BRACKET then below = below - 1 end
      elseif looked then
        if code == COLON then
          if end_name(reader, p, text, begun, first, stop) then from = at + 1 end
        else
          if reader.member then end_value(reader, p, text, from, at) end
          if code ~= COMMA then
            ascend(reader, at)
            looked = reader.depth > 0
            if reader.member and reader.member.item then below, reader.value = 1, "[{" end
          end
        end
      end
    end
    at = at + 1
  end
  reader.line, reader.in_string, reader.below, reader.begun = line, in_string, below, begun
  -- At the end of a line, and between lines, there is nothing to store.
  if line == DATA then
    if looked then
      pause(reader, p, text, first, stop, from, last, "")
    else
      reader.is_other = reader.is_other or past_space(p, from, last) < last
    end
  end
  return at, ended
end

-- The figures of a response for its line, as JSON. A number that no counter holds is -1; no text of a server is in it.
local function figures_text(stream)
  local told, labels, parts = stream.told, stream.dialect.labels, {}
  for label = 1, #told do
    local figure = told[label]
    if figure then
      -- The first format is faster, but lacks room for all.
      local number = type(figure) == "number" and figure % 1 == 0 and format(is_usable(figure) and "%d" or "%.0f", figure) or "-1"
      parts[#parts + 1] = '"' .. labels[label] .. '":' .. number
    end
  end
  if stream.has_failed and stream.text_bytes == 0 and #parts == 0 then parts[1] = '"failed":true' end
  if stream.counts_text then
    parts[#parts + 1] = '"streamed":true'
    if stream.text_bytes > 0 then parts[#parts + 1] = '"text_bytes":' .. format("%d", stream.text_bytes) end
  end
  return #parts == 0 and "null" or "{" .. concat(parts, ",") .. "}"
end

-- Gives Envoy's log the figures so far.
local function report(stream)
  -- Fetch the metadata each time: the object is not valid after waiting for the next chunk.
  local metadata = stream.handle:streamInfo():dynamicMetadata()
  metadata:set("tollgate.line", "reported", figures_text(stream))
  if stream.meters and stream.is_metered then metadata:set("envoy.filters.http.ext_authz", "metered", true) end
end

-- Notes figures that have changed; if the client may disconnect before its end, in Envoy's log, too.
local function note_figures(stream)
  local told, noted = stream.told, stream.noted
  -- Not for each piece of text: that would be too often.
  local has_more = stream.text_bytes > stream.text_noted * 1.0625 + 16
  for label = 1, #told do
    local figure = told[label]
    if figure ~= noted[label] then
      noted[label], has_more = figure, true
      if stream.meters and is_usable(figure) then stream.is_metered = true end
      if IS_TRACED then stream.handle:streamInfo():dynamicMetadata():set("tollgate.usage", stream.dialect.labels[label], figure) end
    end
  end
  if not has_more then return end
  stream.text_noted = stream.text_bytes
  if stream.reports then report(stream) end
end

-- The last four bytes of the names of members whose values are generated text: content and reasoning_content, text,
-- delta, thinking, reasoning, arguments, partial_json, refusal, transcript. Only the Responses API has a text in a
-- delta. `encrypted_content` is a search result, or a reasoning that the client sends back; `cited_text` is a passage of
-- the input.
local TEXTS, TEXT, DELTA = {}, 1, 2
local SMALL_D, UNDERSCORE = 100, 95
for _, name in ipairs({ "tent", "text", "elta", "king", "ning", "ents", "json", "usal", "ript" }) do
  TEXTS[tonumber(cast(FOUR, cast(BYTES, name))[0])] = name == "elta" and DELTA or TEXT
end
-- How often a whole text follows its deltas: at its end, and at the ends of its part, its item and the response.
local REPEATS = 4

-- Whether the text of the name that ends before the colon at `at` was not generated.
local function is_given(text, p, at)
  if p[at - 6] == UNDERSCORE then return at > 11 and sub(text, at - 11, at - 1) == '"cited_text' end
  return at > 18 and p[at - 9] == UNDERSCORE and p[at - 10] == SMALL_D and sub(text, at - 18, at - 1) == '"encrypted_content'
end

-- The end of the string that continues at `at`, or `size`, and whether it ends.
local function end_of_string(p, at, size)
  while at < size do
    if at + 8 <= size then
      local odd = odd_bytes(p, at)
      at = at + (odd == 0 and 8 or bytes_before(odd))
    end
    if at < size then
      local code = p[at]
      if code == QUOTE or code == LF or code == CR then return at, true end
      if code == BACKSLASH then
        at = at + 2
      elseif at + 8 > size or code < SPACE then
        at = at + 1
      end
    end
  end
  return at, false
end

-- Which of eight bytes are colons before a quote or a space.
local function begun_strings(p, at)
  local eight = cast(EIGHT, p + at)[0]
  local after = bor(zeros(bxor(eight, QUOTE_IN_EACH)), zeros(bxor(eight, SPACE_IN_EACH)))
  return band(zeros(bxor(eight, COLON_IN_EACH)), rshift(after, 8))
end

-- Counts the bytes of generated text in a chunk of a stream, for estimates: of strings with such a name, anywhere.
-- Misses a name that is split between two chunks.
local function count_text(stream, text)
  local p, size, at = cast(BYTES, text), #text, stream.skipped
  local texts, deltas, in_text = stream.texts, stream.deltas, stream.in_text
  stream.skipped = 0
  while at < size do
    if in_text then
      local past, ends = end_of_string(p, at, size)
      if in_text == DELTA then deltas = deltas + past - at else texts = texts + past - at end
      in_text, at = not ends and in_text, past
    else
      local odd = at + 8 <= size and begun_strings(p, at)
      if odd and odd == 0 then
        at = at + 7
      else
        if odd then at = at + bytes_before(odd) end
        local kind = p[at] == COLON and at > 5 and p[at - 1] == QUOTE and TEXTS[tonumber(cast(FOUR, p + at - 5)[0])]
        if kind and not is_given(text, p, at) then
          if at + 1 < size and p[at + 1] == SPACE then at = at + 1 end
          if at + 1 < size and p[at + 1] == QUOTE then at, in_text = at + 1, kind end
        end
        at = at + 1
      end
    end
  end
  -- The second half of an escape is in the next chunk.
  if in_text then stream.skipped = at - size end
  stream.texts, stream.deltas, stream.in_text = texts, deltas, in_text
  stream.text_bytes = deltas > 0 and math.max(deltas, math.floor(texts / REPEATS)) or texts
end

-- The streams that hold lines of an event, and the size of all. Streams that were reset since the last count are still
-- in it, so it is recomputed, at most once a second, if it is too large.
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

-- Takes the lines that are held, as one text, to be sent or removed.
local function take(stream)
  if stream.size == 0 then return "" end
  local lines = concat(stream.parts)
  stream.parts, held, stream.size = {}, held - stream.size, 0
  return lines
end

-- Holds more of the current event; if that is too much, stops holding its text. Returns the part that can be sent.
local function hold(stream, part)
  if #part == 0 then return "" end
  if stream.size + #part > LONGEST_HELD or not may_hold(#part) then
    stream.passes, stream.reader.has_begun = true, true
    return take(stream) .. part
  end
  local parts = stream.parts
  if #parts == MOST_PARTS then
    parts = { concat(parts) }
    stream.parts = parts
  end
  parts[#parts + 1] = part
  holders[stream], stream.size, held = true, stream.size + #part, held + #part
  return ""
end

-- Whether a byte is in a short line that has no data. Of longer ones a response cannot have many.
local function is_outside_data(p, at)
  for before = at - 1, math.max(0, at - 8), -1 do
    local code = p[before]
    -- A byte-order mark may precede the first line.
    if code == LF or code == CR then return p[before + 1] ~= FIELD[0] and p[before + 1] < 0xbb end
  end
  return false
end

-- The position, from 0, of the next usage that is not null, or nil. Once asked for usage, many servers put a null into
-- all other events.
local function find_usage(p, text, from)
  while true do
    local first, past = find(text, '"usage"', from + 1, true)
    if not first then return nil end
    -- Reading an event of a few bytes costs more than looking at the beginning of its line.
    if not is_outside_data(p, first - 1) then
      local at = past_space(p, past, #text)
      if p[at] ~= COLON then
        -- Its colon may be in the next line of data.
        if at < #text and p[at] ~= COMMA and p[at] ~= CLOSE_BRACE then return first - 1 end
      elseif p[past_space(p, at + 1, #text)] ~= 110 then
        return first - 1
      end
    end
    from = past
  end
end

-- Whether no event ends within eight bytes: no two line ends are in a row.
local function has_no_end(p, at)
  local eight = cast(EIGHT, p + at)[0]
  local lf, cr = all_zeros(bxor(eight, LF_IN_EACH)), all_zeros(bxor(eight, CR_IN_EACH))
  local ends, after_cr = bor(lf, cr), lshift(cr, 8)
  return band(ends, lshift(ends, 8), bnot(band(lf, after_cr))) == 0
end

-- The position after the last event that ends between `low`, where an event begins, and `at`. Two line ends in a row
-- always end one, regardless of the bytes before.
local function last_end(p, low, at)
  while at > low + 1 do
    local code, before = p[at - 1], p[at - 2]
    if at >= low + 8 and has_no_end(p, at - 8) then
      at = at - 7
    elseif code ~= LF and code ~= CR then
      at = at - 1
    elseif before == LF or before == CR and code == CR then
      return at
    else
      at = at - 1
    end
  end
  return low
end

-- The beginning of the line with the byte at `at`, or `low` if it begins before.
local function line_of(p, low, at)
  while at > low and p[at - 1] ~= LF and p[at - 1] ~= CR do at = at - 1 end
  return at
end

-- The position after spaces and tabs, which do not end a line, and the position before them.
local function past_blanks(p, at, last)
  while at < last and (p[at] == SPACE or p[at] == TAB) do at = at + 1 end
  return at
end

local function before_blanks(p, first, at)
  while at > first and (p[at - 1] == SPACE or p[at - 1] == TAB) do at = at - 1 end
  return at
end

-- The range of the member `usage`, whose value is from `from` to `past`, with its comma. If its name is in another
-- line, only the value.
local function member_of(p, text, first, from, past)
  local colon = before_blanks(p, first, from) - 1
  local name = before_blanks(p, first, colon) - #'"usage"'
  if p[colon] ~= COLON or name < first or sub(text, name + 1, name + #'"usage"') ~= '"usage"' then return from, past, "null" end
  local comma = past_blanks(p, past, #text)
  if p[comma] == COMMA then return name, comma + 1 end
  comma = before_blanks(p, first, name) - 1
  return p[comma] == COMMA and comma or name, past
end

-- Whether between two positions there is only the beginning of a line of data.
local function begins_data(p, first, last)
  while p[first] >= 0xbb do first = first + 1 end
  return last - first >= 5 and cast(FOUR, p + first)[0] == DATA_FIELD and past_blanks(p, first + 5, last) == last
end

-- Evaluates the text with usage that has been read, on lines that end at `past`; the part that may be held begins at
-- `first`. Returns the range to remove, or nil; its replacement; and whether the range is the whole text.
local function judge(stream, p, text, first, past)
  local reader = stream.reader
  if not stream.edits or stream.passes or not reader.usage_last then return nil end
  local begin = line_of(p, first, reader.first)
  if past - (reader.has_begun and begin or first) >= LONGEST_HELD then return nil end
  local from, to = reader.usage_first, reader.usage_last + 1
  if reader.has_choices then
    if stream.blanks then return from, to, "null" end
  elseif stream.removes and not reader.has_more then
    -- Its lines may have other data.
    local is_alone = begins_data(p, begin, reader.first) and past_space(p, reader.last + 1, past) == past
    if is_alone then return begin, past, nil, true end
  elseif stream.removes and reader.is_empty then
    return member_of(p, text, begin, from, to)
  end
  return nil
end

-- Handles the end of the lines of a text with usage. Adds to `out` the part to send of them and of the bytes before
-- them, from `from` on. Returns the position from which the rest is sent.
local function end_text(stream, out, p, text, from, first, past)
  local reader = stream.reader
  local cut, rest, instead, is_gone = judge(stream, p, text, first, past)
  stream.removed = is_gone == true
  if not cut then
    reader.has_begun = true
    return from
  end
  if is_gone then
    -- The event's name is held for other data, but not for a second such text.
    if stream.has_lost and cut > first then reader.has_begun = true end
    stream.has_lost = true
    if not reader.has_begun then
      if first > from then out[#out + 1] = sub(text, from + 1, first) end
      if cut > first then out[#out + 1] = hold(stream, sub(text, first + 1, cut)) end
      return past
    end
  end
  reader.has_begun = true
  if cut > from then out[#out + 1] = sub(text, from + 1, cut) end
  out[#out + 1] = instead
  return rest
end

-- As `end_text`, for lines that are partly held.
local function end_held_text(stream, out, text, first, past)
  local lines = take(stream) .. sub(text, first + 1, past)
  local from = end_text(stream, out, cast(BYTES, lines), lines, 0, 0, #lines)
  if from < #lines then out[#out + 1] = sub(lines, from + 1) end
  return past
end

-- Handles the end of a line; `kind` is the state at its end. Adds to `out` the part to send of the held bytes. Returns
-- the position from which the rest is sent, and the position from which it may have to be held.
local function end_line(stream, kind, out, p, text, from, first, past)
  local reader = stream.reader
  -- The next line of data continues the text.
  if reader.node then return from, first end
  if kind == DATA and reader.has_usage then
    if stream.size > 0 then
      from = end_held_text(stream, out, text, first, past)
    else
      from = end_text(stream, out, p, text, from, first, past)
    end
  else
    reader.has_begun = reader.has_begun or reader.has_names or kind == DATA
    if stream.size > 0 then out[#out + 1] = take(stream) end
  end
  stream.passes = false
  forget(reader)
  return from, past
end

-- Handles the empty line after an event, in the same way.
local function end_event(stream, out, text, from, first, past)
  local reader = stream.reader
  stream.is_open = false
  stream.removed = stream.has_lost and not reader.has_begun and not reader.node
  if stream.removed then
    if first > from then out[#out + 1] = sub(text, from + 1, first) end
    take(stream)
    return past, past
  end
  if stream.size > 0 then out[#out + 1] = take(stream) end
  return from, past
end

-- The position after a line end whose first byte is before `past`.
local function past_line_end(reader, p, past, size)
  if not reader.after_cr or past == size or p[past] ~= LF then return past end
  reader.after_cr = false
  return past + 1
end

-- Shifts the positions of a text, because the held bytes begin elsewhere.
local function move(reader, by)
  for _, place in ipairs(PLACES) do
    if reader[place] then reader[place] = reader[place] + by end
  end
end

-- Handles the end of a chunk within an event. Returns the position from which it may have to be held, or nil.
local function end_piece(stream, p, first, size)
  local reader = stream.reader
  if stream.passes or reader.line == OTHER and not reader.node then
    -- Lines that no client reads as part of an event are not held.
    reader.has_begun = reader.has_begun or reader.has_names
    return nil
  end
  if stream.size > 0 then return first end
  local begin = reader.has_begun and line_of(p, first, reader.first or size) or first
  move(reader, -begin)
  return begin
end

-- Reads a chunk of a stream of events. Returns the part to send. Of the events that begin and end in it, only events
-- with a usage are read.
local function read_events(stream, text)
  local p, size, reader = cast(BYTES, text), #text, stream.reader
  -- The bytes before `from` are in `out`, removed or held. Further bytes that may have to be held begin at `first`.
  local out, at, from, first = {}, 0, 0, 0
  local usage = find_usage(p, text, 0)
  if reader.after_cr and p[0] == LF then
    -- The second half of a line end is sent, held or removed with the first.
    at, first, reader.after_cr = 1, 1, false
    if stream.removed then
      from = 1
    elseif stream.size > 0 then
      out[1], from = hold(stream, "\n"), 1
    end
  end
  while at < size do
    if not stream.is_open then
      local began = at
      if usage and usage < at then usage = find_usage(p, text, at) end
      at = last_end(p, at, usage or size)
      while at < size and (p[at] == LF or p[at] == CR) do at = at + 1 end
      if at > began then stream.removed, reader.after_cr = false, p[at - 1] == CR end
      if at == size then break end
      reset(reader)
      first, stream.is_open, stream.has_lost, stream.passes = at, true, false, false
    end
    stream.removed, reader.base = false, stream.size > 0 and stream.size - first or 0
    reader.stops = stream.edits and (not reader.has_begun or stream.size > 0 or stream.passes)
    reader.holds, reader.sent = stream.size > 0, first
    local past, kind = read(reader, text, at, size)
    if not reader.holds then first = reader.sent end
    if kind then
      past = past_line_end(reader, p, past, size)
      if kind ~= LINE then
        from, first = end_line(stream, kind, out, p, text, from, first, past)
        local code = past < size and p[past]
        if code == LF or code == CR then
          kind, reader.after_cr = LINE, code == CR
          past = past_line_end(reader, p, past + 1, size)
        end
      end
      if kind == LINE then from, first = end_event(stream, out, text, from, first, past) end
    end
    at = past
  end
  if stream.is_open and stream.edits then
    local begin = end_piece(stream, p, first, size)
    if not begin then
      if stream.size > 0 then out[#out + 1] = take(stream) end
    elseif begin < size then
      if begin > from then out[#out + 1] = sub(text, from + 1, begin) end
      out[#out + 1], from = hold(stream, sub(text, begin + 1)), size
    end
  end
  -- Other bytes may have followed the line end.
  reader.after_cr = p[size - 1] == CR
  if from == 0 and #out == 0 then return text end
  out[#out + 1] = sub(text, from + 1)
  return concat(out)
end

-- Handles the end of a response, and of its last line. Returns the part of the line to send.
local function end_events(stream)
  local reader, lines = stream.reader, take(stream)
  if lines == "" or reader.node then return lines end
  if reader.line == DATA and reader.has_usage then
    local out = {}
    local from = end_text(stream, out, cast(BYTES, lines), lines, 0, 0, #lines)
    return reader.has_begun and concat(out) .. sub(lines, from + 1) or ""
  end
  -- An event's name without data is nothing.
  return reader.line ~= DATA and stream.has_lost and not reader.has_begun and "" or lines
end

-- The first bytes of lines of an event. Other bytes that are not labelled as a stream, such as compressed ones, are none.
local BEGINS_LINE = {}
for _, field in ipairs({ "data", "event", "id", "retry", ":" }) do BEGINS_LINE[byte(field)] = true end

-- The first byte of a response after a byte-order mark and white space.
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
  local list = new_table(#spoken.labels, 0)
  for label = 1, #spoken.labels do list[label] = false end
  return list
end

-- The beginnings of an object with a server's error, behind the brace. Behind `data: {` no string of a client is like them:
-- its quotation marks are escaped. `null` is no error.
local ERRORS = {
  '"error"%s*:%s*{', '"error"%s*:%s*"[^"]', '"type"%s*:%s*"error"', '"type"%s*:%s*"response%.failed"', '"object"%s*:%s*"error"',
}

-- Whether a text has an object that begins with an error, after `before`.
local function has_error(text, before)
  for _, pattern in ipairs(ERRORS) do
    if find(text, before .. "{%s*" .. pattern) then return true end
  end
  return false
end

-- Whether a chunk of a stream has an error. Misses one that is split between two chunks.
local function has_error_event(text)
  return has_error(text, "data: ?") or find(text, "^error: ?{") ~= nil or find(text, "[\r\n]error: ?{") ~= nil
end

-- Reads a chunk of a response. Returns the part to send.
local function read_piece(stream, text)
  local sent = text
  if stream.is_json == nil then
    local first = first_byte(text)
    if first then
      stream.is_json = first == OPEN_BRACE or first == OPEN_BRACKET
      local counts_text = not stream.is_json and stream.is_estimated and (stream.counts_text or BEGINS_LINE[first] == true)
      if counts_text ~= stream.counts_text then
        stream.counts_text = counts_text
        if stream.reports then report(stream) end
      end
    end
    if stream.is_json then
      stream.has_failed = stream.may_fail and has_error(text, "^[\239\187\191 \t\r\n]*")
      -- Preceding white space was treated as the beginning of an event.
      sent = take(stream) .. text
      stream.opens, stream.reader = first == OPEN_BRACKET, stream.answer
      renew(stream.reader, stream.opens and no_figures(stream.dialect) or stream.told)
      -- The figures of the objects in a list add up. The last usage of each object counts.
      stream.reader.sums = stream.opens and stream.told or nil
    end
  end
  if stream.is_json then
    local at = 0
    if stream.opens then
      -- Skipped here: the compiler keeps the loop over bytes fast only if it is short.
      at = match(text, "^[\239\187\191 \t\r\n%[]*()") - 1
      stream.opens = at == #text
    end
    read(stream.reader, text, at, #text)
    -- An answer may have an error beside its text.
    if stream.has_failed then count_text(stream, text) end
  else
    if stream.counts_text then
      count_text(stream, text)
      if not stream.has_failed and stream.text_bytes == 0 and stream.bytes < LONGEST_HELD and has_error_event(text) then
        stream.has_failed = true
        if stream.reports then report(stream) end
      end
    end
    sent = read_events(stream, text)
  end
  note_figures(stream)
  return sent
end

-- Streams that have ended, by dialect, for reuse: creating one takes longer than reading most responses. At most this
-- many are retained.
local MOST_IDLE = 64
local idle = { [OPENAI] = {}, [ANTHROPIC] = {} }

local function empty_stream(spoken)
  local told = no_figures(spoken)
  return {
    handle = nil,
    dialect = spoken,
    -- The figures read so far, and the figures noted; whether Envoy's log gets them before the end.
    told = told,
    noted = no_figures(spoken),
    reports = false,
    -- The current reader: one of these.
    reader = nil,
    event = new_reader(spoken.event, told, true),
    answer = new_reader(spoken.answer, told, false),
    removes = false,
    blanks = false,
    edits = false,
    -- Whether the response becomes metered once it reports a figure, and whether it is metered; the bytes sent.
    meters = false,
    is_metered = false,
    bytes = 0,
    -- Whether the response is JSON, and whether it is a list of which only the beginning has arrived. Unknown before
    -- its first byte.
    is_json = nil,
    opens = false,
    -- Whether an event has begun and not ended; whether a text of it was removed; whether the text that is read is too long
    -- to be held.
    is_open = false,
    has_lost = false,
    passes = false,
    -- Whether usage that is not reported is estimated: of a response that is read as it passes, and of any; whether the
    -- server has told an error before any text.
    is_estimated = false,
    may_fail = false,
    has_failed = false,
    -- Whether the bytes of generated text are counted; their number, and the number noted; the bytes of deltas, and of
    -- other texts; whether a chunk ended in one of these, and how many bytes of the next belong to an escape in it.
    counts_text = false,
    text_bytes = 0,
    text_noted = 0,
    texts = 0,
    deltas = 0,
    in_text = false,
    skipped = 0,
    -- The held bytes, in parts, and their size; whether the last line that ended was removed.
    parts = {},
    size = 0,
    removed = false,
  }
end

local function new_stream(handle, anthropic, removes, blanks, choices)
  local spoken = anthropic and ANTHROPIC or OPENAI
  local others = idle[spoken]
  local stream = others[#others] or empty_stream(spoken)
  others[#others] = nil
  stream.handle, stream.reader = handle, stream.event
  stream.removes, stream.blanks, stream.edits = removes, blanks, removes or blanks
  if choices then
    local event = stream.event
    event.choices, event.prompts, event.outputs = choices, { all = 0, count = 0 }, { all = 0, count = 0 }
  end
  return stream
end

-- Resets a stream that has ended, for reuse by another response.
local function end_stream(stream)
  local others, told, noted = idle[stream.dialect], stream.told, stream.noted
  if #others == MOST_IDLE then return end
  for label = 1, #told do told[label], noted[label] = false, false end
  local event = stream.event
  renew(event, told)
  event.choices, event.prompts, event.outputs = nil, nil, nil
  stream.handle, stream.reader, stream.reports, stream.meters, stream.is_metered, stream.bytes = nil, nil, false, false, false, 0
  stream.is_json, stream.is_open = nil, false
  stream.counts_text, stream.text_bytes, stream.text_noted, stream.in_text, stream.skipped = false, 0, 0, false, 0
  stream.is_estimated, stream.texts, stream.deltas, stream.has_failed = false, 0, 0, false
  take(stream)
  others[#others + 1] = stream
end

-- Reads a response as it passes. Not compiled: each response has its own function that returns its chunks, so the
-- compiler would compile the code after it again for a third of all responses, a tenth of Envoy's CPU time for a
-- stream.
local function read_chunks(stream, handle)
  for chunk in handle:bodyChunks() do
    local length = chunk:length()
    if length == 0 then
      -- The end of the response, and of its last event.
      local rest = end_events(stream)
      if rest ~= "" then chunk:setBytes(rest) end
      stream.bytes = stream.bytes + #rest
    else
      local text = chunk:getBytes(0, length)
      local sent = read_piece(stream, text)
      if sent ~= text then chunk:setBytes(sent) end
      stream.bytes = stream.bytes + #sent
    end
  end
end
jit.off(read_chunks)

local function meter(handle, check, removes, blanks, short, is_stream, choices)
  -- Responses whose bodies are held need none yet.
  local body = short and handle:body()
  local stream = new_stream(handle, check.dialect == "anthropic", removes, blanks, choices)
  stream.meters, stream.is_metered = check.metered == "if_reported", check.metered == true
  stream.is_estimated, stream.reports = check.estimate and not short or false, append_line ~= nil and not short
  stream.may_fail = check.estimate and true or false
  -- Until its first byte has arrived, the format is what the label says.
  stream.counts_text = stream.is_estimated and is_stream
  if stream.counts_text and stream.reports then report(stream) end
  if short then
    if body then
      stream.bytes = body:length()
      read_piece(stream, body:getBytes(0, stream.bytes))
    end
    return stream
  end
  read_chunks(stream, handle)
  return stream
end

-- A figure plus others that belong to it, where they were reported.
local function with_more(figure, ...)
  for place = 1, select("#", ...) do
    local more = select(place, ...)
    if is_usable(more) then figure = (figure or 0) + more end
  end
  return figure
end

local function usable(figure)
  return is_usable(figure) and figure or nil
end

local function figure(stream, name)
  return usable(stream.told[stream.dialect.labels[name]])
end

-- Input plus tokens read from a cache or written to it, where they were reported, at the start of a message or later.
local function with_cached(stream, input, start)
  return with_more(input, figure(stream, start .. "cache_creation_input_tokens"), figure(stream, start .. "cache_read_input_tokens"))
end

local function higher(one, other)
  return one and other and math.max(one, other) or one or other
end

-- The tokens that a response counts, if its model has reported them, nil if unknown; and whether a message has only one
-- of its parts. The same rules as `countedTokens` and `isHalf` in src/usage/rules/usage.ts.
local function reported_tokens(stream)
  local total = figure(stream, "total_tokens")
  if total and total > 0 then return total end
  local prompt, output, input = figure(stream, "prompt_tokens"), figure(stream, "completion_tokens"), nil
  local is_message = not prompt and not output
  if is_message then
    input = higher(with_cached(stream, figure(stream, "input_tokens"), ""), with_cached(stream, figure(stream, "start_input_tokens"), "start_"))
    output = higher(figure(stream, "output_tokens"), figure(stream, "start_output_tokens"))
  elseif prompt then
    input = with_cached(stream, prompt, "")
  end
  if total and not (input and input > 0 or output and output > 0) then return total end
  if is_message then return usable(with_more(input, output)), not (input and output) end
  return input and output and usable(input + output) or nil
end

-- Whether a response without usable usage is charged by its length (UNUSABLE_USAGE). The service fills it in.
local CHARGES_UNUSABLE = false

-- An upper bound of the charge if the model's report is incomplete: at most one token per two bytes. The service
-- subtracts the excess when it has read the line; until then requests in doubt go to Check.
local function most_tokens(stream, line)
  local tokens = math.ceil(stream.bytes / 2) + (tonumber(match(line, '"estimate":"(%d+);')) or 0)
  for _, figure in ipairs(stream.told) do
    if is_usable(figure) then tokens = tokens + figure end
  end
  return tokens
end

-- The tokens that the response adds to its lane, or nil. A message of which only the start was reported is estimated,
-- too.
local function used_tokens(stream, check)
  local told, labels, tokens, is_half = stream.told, stream.dialect.labels, reported_tokens(stream)
  local is_cut_short = told[labels.start_input_tokens] and not told[labels.output_tokens]
  if stream.has_failed and stream.text_bytes == 0 and not tokens and not is_cut_short then return nil end
  local is_unusable = not tokens or is_half and not is_cut_short
  if check.estimate and (is_cut_short or is_unusable) or CHARGES_UNUSABLE and is_unusable then return most_tokens(stream, check.line) end
  return tokens
end

-- Adds the response's tokens to this worker's lane, if they are counted and known. Returns the line's note of that.
local function count_in_lane(stream, check, ended_at)
  local tokens, place = check.lane and stream.is_metered and used_tokens(stream, check), check.lane
  return tokens and tokens > 0 and add_by_table(place, tokens, ended_at)
end

-- Writes the line of a response that was read to its end (src/journal/journal-line.ts), and notes the outcome: Envoy's log
-- omits the line, or gets the figures. Check's part of the line begins with the start of the request.
local function tell_line(stream, check, status, first_byte_at)
  local now, started_at = now_ms(), tonumber(match(check.line, '^{"start":(%d+)'))
  -- Before the line, so that a reader of the line finds the tokens that it has added.
  local lane = count_in_lane(stream, check, math.max(now, started_at))
  local line = format(
    '\n{"v":1,"metered":%s,"fb":%d,"ms":%d,"bytes":%d,"status":%s,"sent":true,"reported":%s%s,"check":%s}\n',
    tostring(stream.is_metered), math.max(0, first_byte_at - started_at), math.max(0, now - started_at), stream.bytes, status,
    figures_text(stream), lane and ',"lane":"' .. lane .. '"' or "", check.line
  )
  local metadata = stream.handle:streamInfo():dynamicMetadata()
  if append_line(line, now) then
    metadata:set("tollgate.line", "written", true)
  else
    if lane then metadata:set("tollgate.line", "lane", lane) end
    report(stream)
  end
end

-- The compiler specializes its code on the first responses, and after an unfortunate choice a response can take ten
-- times as long. So it first sees the loop over bytes alone, then the one over text, then texts of nothing but escapes,
-- lists, or members whose names may be known and those whose may not, and then usual responses.
local function show_usual()
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
  -- Lines that are held, or are not, before the removed part, and a member that is removed.
  local LINES = (":\n"):rep(500) .. ("id:\n"):rep(300) .. 'data: {"choices":[],"usage":{"total_tokens":3}}\n\n'
  local MORE_THAN_USAGE = ('data: {"choices":[],"usage":{"total_tokens":3},"x":1}\n\n'):rep(100)
  for _ = 1, 20 do
    read_events(new_stream(nil, false, true, false), LINES)
    read_events(new_stream(nil, false, true, false), MORE_THAN_USAGE)
    read(new_reader(OPENAI.answer, no_figures(OPENAI), false), ANSWER, 0, #ANSWER)
    read_events(new_stream(nil, false, true, false), EVENTS)
    count_text(new_stream(nil, false, true, false), EVENTS)
  end
end
if not IS_MAIN_THREAD then show_usual() end

-- If the gateway has its own credential at the model server, a refusal of that credential is not the caller's fault,
-- but clients would report it as such. The server's message may contain part of the credential.
local REFUSED = '"message":"The model server does not accept the credential of this gateway.","type":'

-- Sends 502 with this text instead of the server's response.
local function replace(handle, text, is_head)
  local headers = handle:headers()
  local has_no_body = headers:get(":status") == "101" or tonumber(headers:get("content-length") or "") == 0
  for _, name in ipairs({ "www-authenticate", "proxy-authenticate", "content-encoding", "retry-after", "trailer", "upgrade" }) do
    headers:remove(name)
  end
  headers:replace(":status", "502")
  headers:replace("content-type", "application/json")
  headers:replace("content-length", tostring(#text))
  if is_head then return end
  if has_no_body then
    handle:body(true):setBytes(text)
    return
  end
  -- The server's message is not held, because it may be longer than Envoy's buffer.
  for chunk in handle:bodyChunks() do
    chunk:setBytes(text)
    text = ""
  end
end

local function hide_refusal(handle, anthropic, is_head)
  handle:streamInfo():dynamicMetadata():set("tollgate.failure", "reason", "credential_refused")
  local text = anthropic and '{"type":"error","error":{' .. REFUSED .. '"api_error"}}'
    or '{"error":{' .. REFUSED .. '"server_error","code":"model_credential_refused"}}'
  handle:headers():replace("x-should-retry", "false")
  replace(handle, text, is_head)
end

-- No request to a model asks for an upgrade (101), and a proxy in front might take the rest of its connection for a tunnel.
local UNASKED = '"message":"The response of the server behind this path is not valid, or ended before it was complete.","type":'

local function hide_upgrade(handle, anthropic, is_head)
  local text = anthropic and '{"type":"error","error":{' .. UNASKED .. '"api_error"}}'
    or '{"error":{' .. UNASKED .. '"server_error","code":"bad_gateway"}}'
  replace(handle, text, is_head)
end

-- Reads the response to a request that was allowed. `check` has the fields of Check's metadata about the request:
-- `line`, `metered`, `dialect`, `credential`, `estimate` and `lane`. `body` has the findings and changes in its body.
-- `is_head`: its method is HEAD.
function read_response(handle, check, body, is_head)
  local status = handle:headers():get(":status")
  if status == "101" then return hide_upgrade(handle, check.dialect == "anthropic", is_head) end
  if check.credential and not (body and body.refused) and (status == "401" or status == "403") then
    return hide_refusal(handle, check.dialect == "anthropic", is_head)
  end
  local removes = body ~= nil and body.usage_added == true
  local blanks = body ~= nil and body.usage_in_each == true
  if not check.metered and not removes then return end
  local headers = handle:headers()
  if sub(status, 1, 1) ~= "2" then return end
  local is_stream = find((headers:get("content-type") or ""):lower(), "event-stream", 1, true) ~= nil
  -- It would be wrong once an event is removed.
  local short = is_short_json(headers)
  if (removes or blanks) and not short then headers:remove("content-length") end
  local asked, first_byte_at = check.line, now_ms()
  local fine, result = pcall(meter, handle, check, removes, blanks, short, is_stream, body and body.choices)
  local stream = fine and result
  if fine and asked and append_line then fine, result = pcall(tell_line, stream, check, status, first_byte_at) end
  if not fine then return handle:logErr(tostring(result)) end
  end_stream(stream)
end
