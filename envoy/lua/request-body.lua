-- Checks the body of a model request in one pass, before a model server receives it.
--
-- The server gets exactly the bytes that were checked, as application/json, so that no server reads them in another
-- format. A body that JSON parsers could read differently is refused with 400: it must be an object, RFC 8259 in UTF-8,
-- without a name that occurs twice in one object, a lone surrogate, a number beyond a double, or more than 100 levels.
--
-- A streamed chat call is changed to ask for its usage, in each event if the model's server can report it there.
-- usage.lua removes what the client has not asked for.
--
-- If the path names the model, the body is read after Check has allowed the caller. On shared routes it is read before
-- Check, because it names the model, and on a model's path before a second Check if the first needs the request's size;
-- Check then refuses an unacceptable body, once it has authenticated the caller. There the body is read again after
-- Check for /v1/completions, where usage is asked for only if it is counted, and if the body must be compared or
-- changed.

local ffi = require("ffi")
local byte, find, match, sub = string.byte, string.find, string.match, string.sub

local cast, band, bor, bnot, bxor, rshift = ffi.cast, bit.band, bit.bor, bit.bnot, bit.bxor, bit.rshift

local OPEN_BRACE, QUOTE, BACKSLASH = 123, 34, 92
local MOST_LEVELS = 100
-- The bytes of a body that are read at a time. The whole body is not copied: Lua's allocator maps and unmaps each block
-- above 128 KiB, which takes longer than reading it.
local WINDOW = 65536
-- A body that is changed is copied nevertheless, and the copies stay until Lua collects its garbage. A heap above this
-- size (KiB) is collected at the end of the request, and again when it has grown by half since.
local LARGE_HEAP = 8192
local most_heap = LARGE_HEAP

local function collect_if_large()
  if collectgarbage("count") <= most_heap then return end
  collectgarbage()
  most_heap = math.max(LARGE_HEAP, 1.5 * collectgarbage("count"))
end

local function refuse(message)
  error({ message = message }, 0)
end

local function not_json()
  refuse("it is not a JSON object that every parser reads alike")
end

-- RFC 8259 and UTF-8 as one automaton: NEXT[state + byte] is the next state. States are multiples of
-- 256. States from BEGINS_STRING on need more work than a look-up.
local states = 0

local function state()
  states = states + 1
  return (states - 1) * 256
end

-- The bytes that match a Lua pattern, or the bytes of a range. Cached: many states have the same, and searching took
-- most of the time that each thread needs to build the automaton.
local MATCHING = {}
local function bytes(from, to)
  local list = MATCHING[from] or {}
  if #list > 0 then return list end
  for code = to and from or 0, to or 255 do
    if to or find(string.char(code), from) then list[#list + 1] = code end
  end
  if not to then MATCHING[from] = list end
  return list
end

local VALUE, FIRST_ITEM, FIRST_NAME, NEXT_NAME, BEFORE_COLON, AFTER_VALUE = state(), state(), state(), state(), state(), state()
local EXPONENT = state()
local number = {}
for _, part in ipairs({ "minus", "zero", "integer", "point", "fraction", "exponent_sign", "exponent_digits" }) do
  number[part] = state()
end
local WORDS = {}
for _, word in ipairs({ "true", "false", "null" }) do
  WORDS[word] = {}
  for i = 1, #word - 1 do WORDS[word][i] = state() end
end
-- The states inside a string, other than between two characters.
local function string_states()
  local inside = {}
  for _, part in ipairs({
    "escape", "unit1", "unit2", "unit3", "unit4", "after_d", "high3", "high4", "low_escape", "low_u", "low1", "low2",
    "more1", "more2", "more3", "after_e0", "after_ed", "after_f0", "after_f4",
  }) do
    inside[part] = state()
  end
  return inside
end
local STRING, RESUMED, in_string = state(), state(), string_states()
local NAME, ESCAPED_NAME, in_name = state(), state(), string_states()
-- The states that need more work.
local BEGINS_STRING, NAME_ENDS, ESCAPED_NAME_ENDS, OPENS_OBJECT, OPENS_ARRAY, CLOSES_OBJECT, CLOSES_ARRAY, SEPARATES, HAS_EXPONENT, BROKEN =
  state(), state(), state(), state(), state(), state(), state(), state(), state(), state()

local NEXT = ffi.new("uint16_t[?]", states * 256)
for i = 0, states * 256 - 1 do NEXT[i] = BROKEN end

do
  local function go(from, list, to)
    for _, code in ipairs(list) do NEXT[from + code] = to end
  end

  local SPACES, DIGITS, HEX = bytes("[ \t\r\n]"), bytes("%d"), bytes("%x")

  local function begin_value(from)
    go(from, SPACES, from)
    go(from, { QUOTE }, BEGINS_STRING)
    go(from, { OPEN_BRACE }, OPENS_OBJECT)
    go(from, bytes("%["), OPENS_ARRAY)
    go(from, bytes("%-"), number.minus)
    go(from, bytes("0"), number.zero)
    go(from, bytes("[1-9]"), number.integer)
    for word, parts in pairs(WORDS) do go(from, { byte(word) }, parts[1]) end
  end

  local function end_value(from)
    go(from, SPACES, AFTER_VALUE)
    go(from, bytes(","), SEPARATES)
    go(from, bytes("}"), CLOSES_OBJECT)
    go(from, bytes("%]"), CLOSES_ARRAY)
  end

  -- The transitions of a string: between two characters it is in `home`, after a character of several bytes in
  -- `wide`, after an escape in `escaped`.
  local function string_of(home, wide, escaped, part, ends)
    go(home, bytes(0x20, 0x7f), home)
    go(home, { QUOTE }, ends)
    go(home, bytes("\\"), part.escape)
    -- Well-formed sequences (Unicode, table 3-7).
    local sequences = {
      { 0xc2, 0xdf, part.more1 }, { 0xe0, 0xe0, part.after_e0 }, { 0xe1, 0xec, part.more2 }, { 0xed, 0xed, part.after_ed },
      { 0xee, 0xef, part.more2 }, { 0xf0, 0xf0, part.after_f0 }, { 0xf1, 0xf3, part.more3 }, { 0xf4, 0xf4, part.after_f4 },
    }
    for _, sequence in ipairs(sequences) do go(home, bytes(sequence[1], sequence[2]), sequence[3]) end
    go(part.after_e0, bytes(0xa0, 0xbf), part.more1)
    go(part.after_ed, bytes(0x80, 0x9f), part.more1)
    go(part.after_f0, bytes(0x90, 0xbf), part.more2)
    go(part.after_f4, bytes(0x80, 0x8f), part.more2)
    go(part.more3, bytes(0x80, 0xbf), part.more2)
    go(part.more2, bytes(0x80, 0xbf), part.more1)
    go(part.more1, bytes(0x80, 0xbf), wide)
    go(part.escape, bytes('["\\/bfnrt]'), escaped)
    go(part.escape, bytes("u"), part.unit1)
    go(part.unit1, HEX, part.unit2)
    go(part.unit1, bytes("[dD]"), part.after_d)
    go(part.unit2, HEX, part.unit3)
    go(part.unit3, HEX, part.unit4)
    go(part.unit4, HEX, escaped)
    -- A low surrogate must follow a high one.
    go(part.after_d, bytes("[0-7]"), part.unit3)
    go(part.after_d, bytes("[89abAB]"), part.high3)
    go(part.high3, HEX, part.high4)
    go(part.high4, HEX, part.low_escape)
    go(part.low_escape, bytes("\\"), part.low_u)
    go(part.low_u, bytes("u"), part.low1)
    go(part.low1, bytes("[dD]"), part.low2)
    go(part.low2, bytes("[c-fC-F]"), part.unit3)
  end

  begin_value(VALUE)
  begin_value(FIRST_ITEM)
  go(FIRST_ITEM, bytes("%]"), CLOSES_ARRAY)
  go(FIRST_NAME, SPACES, FIRST_NAME)
  go(FIRST_NAME, { QUOTE }, NAME)
  go(FIRST_NAME, bytes("}"), CLOSES_OBJECT)
  go(NEXT_NAME, SPACES, NEXT_NAME)
  go(NEXT_NAME, { QUOTE }, NAME)
  go(BEFORE_COLON, SPACES, BEFORE_COLON)
  go(BEFORE_COLON, bytes(":"), VALUE)
  end_value(AFTER_VALUE)
  for word, parts in pairs(WORDS) do
    for i = 2, #word do go(parts[i - 1], { byte(word, i) }, parts[i] or AFTER_VALUE) end
  end
  go(number.minus, bytes("0"), number.zero)
  go(number.minus, bytes("[1-9]"), number.integer)
  go(number.integer, DIGITS, number.integer)
  for _, from in ipairs({ number.zero, number.integer }) do go(from, bytes("%."), number.point) end
  go(number.point, DIGITS, number.fraction)
  go(number.fraction, DIGITS, number.fraction)
  for _, from in ipairs({ number.zero, number.integer, number.fraction }) do go(from, bytes("[eE]"), HAS_EXPONENT) end
  go(EXPONENT, bytes("[+-]"), number.exponent_sign)
  for _, from in ipairs({ EXPONENT, number.exponent_sign, number.exponent_digits }) do go(from, DIGITS, number.exponent_digits) end
  for _, from in ipairs({ number.zero, number.integer, number.fraction, number.exponent_digits }) do end_value(from) end
  string_of(STRING, STRING, BEGINS_STRING, in_string, AFTER_VALUE)
  -- Inside a string, where plain text probably follows.
  for code = 0, 255 do NEXT[RESUMED + code] = NEXT[STRING + code] == STRING and BEGINS_STRING or NEXT[STRING + code] end
  -- A name that is not plain ASCII is decoded when it ends.
  string_of(NAME, ESCAPED_NAME, ESCAPED_NAME, in_name, NAME_ENDS)
  string_of(ESCAPED_NAME, ESCAPED_NAME, ESCAPED_NAME, in_name, ESCAPED_NAME_ENDS)
end

-- The plain bytes of a string: printable ASCII without " and \\.
local PLAIN = ffi.new("bool[256]")
for code = 0x20, 0x7f do PLAIN[code] = code ~= QUOTE and code ~= BACKSLASH end
-- The bytes that may follow a backslash, except u.
local ESCAPED = ffi.new("bool[256]")
for _, code in ipairs(bytes('["\\/bfnrt]')) do ESCAPED[code] = true end

-- Eight bytes at once. In the result of not_plain, the lowest high bit that is set marks the first byte that
-- is not plain; higher bits may be wrong.
local EIGHT = ffi.typeof("const uint64_t*")
local ONES, HIGH_BITS = 0x0101010101010101ULL, 0x8080808080808080ULL
local SPACE_IN_EACH, QUOTE_IN_EACH, BACKSLASH_IN_EACH = ONES * 0x20, ONES * QUOTE, ONES * BACKSLASH

local function not_plain(eight)
  return band(
    bor(eight, eight - SPACE_IN_EACH, bxor(eight, QUOTE_IN_EACH) - ONES, bxor(eight, BACKSLASH_IN_EACH) - ONES),
    HIGH_BITS
  )
end

-- The number of bytes before the first one whose high bit is set.
local function bytes_before(high_bits)
  return tonumber(rshift(band(band(high_bits, -high_bits) - 1, ONES) * ONES, 56)) - 1
end

-- The byte that an escape denotes, except u; and the value of a hexadecimal digit.
local MEANT, HEX_VALUE = ffi.new("uint8_t[256]"), ffi.new("uint8_t[256]")
for code = 0, 255 do MEANT[code], HEX_VALUE[code] = code, tonumber(string.char(code), 16) or 0 end
for letter, meant in pairs({ b = "\b", f = "\f", n = "\n", r = "\r", t = "\t" }) do MEANT[byte(letter)] = byte(meant) end

local function hexadecimal(p, at)
  return HEX_VALUE[p[at]] * 0x1000 + HEX_VALUE[p[at + 1]] * 0x100 + HEX_VALUE[p[at + 2]] * 0x10 + HEX_VALUE[p[at + 3]]
end

-- Writes a character to `to` in UTF-8, from `at` on. Returns the index after it.
local function write_utf8(to, at, code)
  if code < 0x80 then
    to[at] = code
    return at + 1
  end
  local past = at + (code < 0x800 and 2 or code < 0x10000 and 3 or 4)
  for place = past - 1, at + 1, -1 do
    to[place], code = bor(0x80, band(code, 0x3f)), rshift(code, 6)
  end
  to[at] = (past - at == 2 and 0xc0 or past - at == 3 and 0xe0 or 0xf0) + code
  return past
end

local FEW_DECODED = 1024
local decoded, decoded_room

local function new_decoded(bytes)
  decoded, decoded_room = ffi.new("uint8_t[?]", bytes + 8), bytes
end

new_decoded(FEW_DECODED)

-- Decodes a string of `length` bytes at `p` that the automaton has accepted. Returns a pointer to the result, with
-- eight more readable bytes, and its length. It is valid until the next call.
local function decode(p, length)
  if length > decoded_room then new_decoded(math.max(length, 2 * decoded_room)) end
  local to, at, count = decoded, 0, 0
  while at < length do
    local code = p[at]
    if code ~= BACKSLASH then
      to[count] = code
      at, count = at + 1, count + 1
    elseif p[at + 1] ~= 0x75 then
      to[count] = MEANT[p[at + 1]]
      at, count = at + 2, count + 1
    else
      code, at = hexadecimal(p, at + 2), at + 6
      if code >= 0xd800 and code <= 0xdbff then
        code, at = 0x10000 + (code - 0xd800) * 0x400 + hexadecimal(p, at + 2) - 0xdc00, at + 6
      end
      count = write_utf8(to, count, code)
    end
  end
  return cast("const uint8_t*", to), count
end

-- Decodes a text without its quotes.
local function unescape(text)
  return ffi.string(decode(cast("const uint8_t*", text), #text))
end

-- Two names count as equal if both of their 32-bit hashes are equal. A hash is the upper half of a sum: the length and
-- each 32-bit word of the name, each multiplied by a secret factor of its own (https://arxiv.org/abs/1202.4961). So no
-- client can choose names that collide or crowd into a few slots, and no name has to be stored.
math.randomseed(tonumber(tostring({}):match("0x(%x+)"), 16) % 2147483647 + os.time())
local LAST_FACTOR = 64

local function secret_factors()
  local factors = ffi.new("uint64_t[?]", LAST_FACTOR + 1)
  local function half() return math.random(2 ^ 32) - 1 end
  for i = 0, LAST_FACTOR do factors[i] = half() * 0x100000000ULL + half() end
  return factors
end

local FACTORS_1, FACTORS_2 = secret_factors(), secret_factors()
local LOWER_HALF, HASH = 0xffffffffULL, ffi.typeof("int32_t")

-- Masks for the first 0 to 8 bytes of eight.
local FIRST_BYTES = ffi.new("uint64_t[9]")
for count = 1, 8 do FIRST_BYTES[count] = rshift(-1ULL, 64 - 8 * count) end

-- The eight bytes at `p`, with zeros after the first `count`.
local function eight_bytes(p, count)
  return band(cast(EIGHT, p)[0], FIRST_BYTES[math.min(count, 8)])
end

-- Adds eight bytes to a sum, with the factors from `at` on.
local function add(sum, factors, at, eight)
  return sum + factors[at] * band(eight, LOWER_HALF) + factors[at + 1] * rshift(eight, 32)
end

-- Adds the bytes of a name after its sixteenth to both sums. When the factors are used up, the hashes so far are the
-- first words of a new sum.
local function add_rest(sum_1, sum_2, p, length)
  local factor = 5
  for at = 16, length - 1, 8 do
    if factor > LAST_FACTOR then
      sum_1, sum_2, factor = FACTORS_1[1] * rshift(sum_1, 32), FACTORS_2[1] * rshift(sum_2, 32), 3
    end
    local eight = eight_bytes(p + at, length - at)
    sum_1, sum_2, factor = add(sum_1, FACTORS_1, factor, eight), add(sum_2, FACTORS_2, factor, eight), factor + 2
  end
  return sum_1, sum_2
end

-- The names of the object that is open at each level: a hash table with open addressing. A slot is in use if it has the
-- number of that object.
local FIRST_SLOTS, MOST_KEPT_SLOTS = 64, 1024
-- Maximum number of slots of all tables that are too large to be retained: 8 MiB, since Envoy does not see this memory.
-- One object can have 262,144 names, more than any vocabulary has tokens.
local MOST_SLOTS = 524288
local SLOTS = ffi.typeof("struct { double object; int32_t hash_1, hash_2; }[?]")
local tables, objects = {}, 0
-- The slots of the tables above MOST_KEPT_SLOTS.
local large_slots = 0

local function new_table(slots)
  return { slots = slots, slot = SLOTS(slots), object = 0, names = 0 }
end

-- Adds a name to the object of this table. Returns whether the object already had it.
local function insert(names, hash_1, hash_2)
  local slot, object, last = names.slot, names.object, names.slots - 1
  local at = band(hash_1, last)
  while slot[at].object == object do
    if slot[at].hash_1 == hash_1 and slot[at].hash_2 == hash_2 then return true end
    at = band(at + 1, last)
  end
  slot[at].object, slot[at].hash_1, slot[at].hash_2 = object, hash_1, hash_2
  names.names = names.names + 1
  return false
end

local function slots_if_large(names)
  return names.slots > MOST_KEPT_SLOTS and names.slots or 0
end

local function twice_as_large(names)
  if names.slots >= MOST_KEPT_SLOTS then
    large_slots = large_slots - slots_if_large(names) + names.slots * 2
    if large_slots > MOST_SLOTS then refuse("an object has too many names") end
  end
  local larger = new_table(names.slots * 2)
  larger.object = names.object
  for at = 0, names.slots - 1 do
    local slot = names.slot[at]
    if slot.object == names.object then insert(larger, slot.hash_1, slot.hash_2) end
  end
  return larger
end

local function open_object(level)
  objects = objects + 1
  local names = tables[level]
  if not names or names.slots > MOST_KEPT_SLOTS then
    if names then large_slots = large_slots - names.slots end
    names = new_table(FIRST_SLOTS)
    tables[level] = names
  end
  names.object, names.names = objects, 0
end

-- Adds the name of `length` bytes at `p` to the object that is open at a level. Eight more bytes must be readable.
local function note_name(level, p, length)
  local sum_1, sum_2 = FACTORS_1[0] * length, FACTORS_2[0] * length
  -- The compiler is better at straight code than at loops of one or two rounds.
  local eight = eight_bytes(p, length)
  sum_1, sum_2 = add(sum_1, FACTORS_1, 1, eight), add(sum_2, FACTORS_2, 1, eight)
  if length > 8 then
    eight = eight_bytes(p + 8, length - 8)
    sum_1, sum_2 = add(sum_1, FACTORS_1, 3, eight), add(sum_2, FACTORS_2, 3, eight)
    if length > 16 then sum_1, sum_2 = add_rest(sum_1, sum_2, p, length) end
  end
  local names = tables[level]
  if names.names * 2 >= names.slots then
    names = twice_as_large(names)
    tables[level] = names
  end
  local hash_1, hash_2 = tonumber(cast(HASH, rshift(sum_1, 32))), tonumber(cast(HASH, rshift(sum_2, 32)))
  if insert(names, hash_1, hash_2) then refuse("a name stands twice in one object") end
end

local SPELLED = "a field must be spelled exactly "

-- No legitimate body has this many names with escapes or non-ASCII characters.
local MOST_ESCAPED_NAMES = 10000
-- Only a number with an exponent, or one of more bytes than this, can exceed a double.
local LONG_NUMBER = 300

local POINT_SIGN = 0x2e

local function past_space(p, at)
  while p[at] == 0x20 or p[at] == 0x09 or p[at] == 0x0a or p[at] == 0x0d do at = at + 1 end
  return at
end

local function is_digit(code)
  return code >= 0x30 and code <= 0x39
end

-- The smallest number that is nearer to 2^1024 than to the largest double, so that parsers read it as infinite.
local INFINITE = "1797693134862315807937289714053034150799341327100378269361737789804449682927647509466490179775872070963"
  .. "3028641669288791094655554785194040263065748867150582068190890200070838367627385484581771153176447573027"
  .. "0069855571366959622842914819860834936475292719074168444365510704342711559699508093042880177904174497792"
local INFINITE_DIGITS = cast("const uint8_t*", INFINITE)
local MOST_MAGNITUDE = #INFINITE - 1

-- Whether a number of this magnitude, whose significant digits begin at `at` and end before `past`, is infinite.
local function is_infinite(p, at, past)
  local compared = 0
  while at < past and compared < #INFINITE do
    local code = p[at]
    if code ~= POINT_SIGN then
      if code ~= INFINITE_DIGITS[compared] then return code > INFINITE_DIGITS[compared] end
      compared = compared + 1
    end
    at = at + 1
  end
  return compared == #INFINITE
end

-- Refuses the number that ends at `last` if it exceeds a double; between `mark` and the number are only spaces, a colon
-- and a minus. Compares digits, because tonumber takes 50 microseconds for 1e300.
local function check_number(p, mark, last)
  local at, point = mark + 1, -1
  while not is_digit(p[at]) do at = at + 1 end
  while p[at] == 0x30 or p[at] == POINT_SIGN do
    if p[at] == POINT_SIGN then point = at end
    at = at + 1
  end
  local significant = at
  while is_digit(p[at]) or p[at] == POINT_SIGN do
    if p[at] == POINT_SIGN then point = at end
    at = at + 1
  end
  -- Only zeros.
  if significant == at then return end
  local past = at
  if point < 0 then point = past end
  -- The exponent of the first significant digit.
  local magnitude = point > significant and point - significant - 1 or point - significant
  if past < last then
    local below = p[past + 1] == 0x2d
    at = past + ((below or p[past + 1] == 0x2b) and 2 or 1)
    local exponent = 0
    -- Beyond this, no digits before it can compensate.
    while at <= last and exponent < 1e12 do
      exponent, at = exponent * 10 + p[at] - 0x30, at + 1
    end
    magnitude = magnitude + (below and -exponent or exponent)
  end
  if magnitude > MOST_MAGNITUDE or magnitude == MOST_MAGNITUDE and is_infinite(p, significant, past) then not_json() end
end

local function before_space(p, at)
  while p[at] == 0x20 or p[at] == 0x09 or p[at] == 0x0a or p[at] == 0x0d do at = at - 1 end
  return at
end

-- The window holds some bytes of a source. Zeros before and after it allow reads beyond its ends. A source
-- has the methods `length` and `getBytes` of Envoy's bodies.
local MARGIN = 8
local buffer, room

local function new_buffer(bytes)
  buffer, room = ffi.new("uint8_t[?]", MARGIN + bytes + MARGIN), bytes
end

new_buffer(WINDOW)

-- Moves the window, which holds `last` bytes of `source` from `base` on: retains its bytes from `keep` on and appends
-- the bytes that follow in the source. Returns a pointer to its bytes and their number. It appends at least as many as
-- it retains, so that the cost of a long name is proportional to its length.
local function move_window(source, base, keep, last)
  local kept = ffi.string(buffer + MARGIN + keep, last - keep)
  local added = source:getBytes(base + last, math.min(source:length() - base - last, math.max(WINDOW - #kept, #kept)))
  local count = #kept + #added
  if count > room then new_buffer(count) end
  ffi.copy(buffer + MARGIN, kept, #kept)
  ffi.copy(buffer + MARGIN + #kept, added, #added)
  buffer[MARGIN + count] = 0
  return cast("const uint8_t*", buffer + MARGIN), count
end

-- A source that reads from a string.
local function source_of(text)
  return {
    length = function() return #text end,
    getBytes = function(_, first, length) return sub(text, first + 1, first + length) end,
  }
end

-- The value that follows a name in a text. The text begins at `first` of the source.
local function value_in(text, first)
  local p = cast("const uint8_t*", text)
  local from, to = past_space(p, past_space(p, 0) + 1), before_space(p, #text - 1)
  return { first = first + from, last = first + to, text = sub(text, from + 1, to + 1) }
end

-- Finds the first byte other than white space from `at` of the window on, and moves the window if needed. Returns the
-- byte's index in the window, the window's position in the source, the pointer to its bytes and their number. The index
-- is the end of the window if the source has no such byte.
local function skip_space(source, base, at, last)
  local p = cast("const uint8_t*", buffer + MARGIN)
  while true do
    at = past_space(p, at)
    if at < last or base + last == source:length() then return at, base, p, last end
    base, at = base + last, 0
    p, last = move_window(source, base, 0, 0)
  end
end

-- Frees the memory that only an unusual body needs. Otherwise each level could retain the table of its largest object,
-- on each thread.
local function release()
  if room > WINDOW then new_buffer(WINDOW) end
  if decoded_room > FEW_DECODED then new_decoded(FEW_DECODED) end
  if large_slots == 0 then return end
  for level, names in pairs(tables) do
    if names.slots > MOST_KEPT_SLOTS then tables[level] = nil end
  end
  large_slots = 0
end

-- Whether the container at a level is an object.
local is_object = ffi.new("bool[?]", MOST_LEVELS + 1)

-- Reports a field once.
local function report(found, field)
  local fields = found.fields
  if not fields then
    fields = {}
    found.fields = fields
  end
  if not fields[field] then
    fields[field] = true
    fields[#fields + 1] = field
  end
end

-- Names by their context: the rule of a name, how the value of a rule is examined, and so on.
local field_at_top, rule_below, enter_place, mask_at, follow, after_item
-- The fields that are closed for a reason other than naming a stored object, with the reason.
local LOOK, CLOSED_AS = ffi.new("uint8_t[256]"), { ["tools[].model"] = "choosing", extra_body = "choosing" }

do
  -- Names in a body that refer to an object stored in the account at the model's server, or to another model. The
  -- meaning of a name depends on its container, so each container has a context ("place"). RULES has, for each place
  -- and name, the place of its value, and the field that is reported if there is a value. OPAQUE holds texts and values
  -- of users, such as the parameters of their tools: no name there has a meaning.
  local TOP, ANY, OPAQUE, ITEM, LAST_PLACE = 1, 2, 3, 4, 8
  -- How the value of a name is examined. A field is reported if it has any value (FIELD), or one other than an object
  -- (NO_OBJECT). Of an item, the id and the kind are examined: an item that is only an id, or whose type is a
  -- reference, refers to a stored one. So does an image or a reasoning of the model's without its data.
  local FIELD, NO_OBJECT, ITEM_TYPE, ITEM_ID, ITEM_ROLE, ITEM_RESULT, ITEM_TEXT = 1, 2, 3, 4, 5, 6, 7
  local RULES = {}

  do
    local TOOL, CONTAINER, AUDIO, VARIABLES = 5, 6, 7, 8

    local function all(...)
      local together = {}
      for _, rules in ipairs({ ... }) do
        for name, rule in pairs(rules) do together[name] = rule end
      end
      return together
    end

    local function reported(...)
      local rules = {}
      for _, name in ipairs({ ... }) do rules[name] = { look = FIELD, field = name, place = ANY } end
      return rules
    end

    local function opaque(...)
      local rules = {}
      for _, name in ipairs({ ... }) do rules[name] = { place = OPAQUE } end
      return rules
    end

    local choosing = reported(
      "adapter_id", "api_base", "api_key", "base_url", "compound_custom", "content_policy_fallbacks",
      "context_window_fallbacks", "custom_llm_provider", "deployment_id", "extra_headers", "fallbacks", "headers",
      "litellm_credential_name", "lora", "lora_path", "model_group", "model_list", "models", "organization", "plugins", "preset",
      "prompt_id", "provider", "provider_specific_header", "providerOptions", "route", "router_settings_override", "safety_model",
      "specific_deployment", "user_config"
    )
    -- Fields that servers of one model exchange: whose memory to read, at which address.
    local internal = reported(
      "bootstrap_host", "bootstrap_port", "bootstrap_room", "disaggregated_params", "ec_transfer_params", "kv_transfer_params"
    )
    for name in pairs(choosing) do CLOSED_AS[name] = "choosing" end
    for name in pairs(internal) do CLOSED_AS[name] = "internal" end
    local everywhere = all(
      internal,
      reported(
        "cached_content", "collection_ids", "container_id", "file_id", "file_ids", "file_search_store_names", "input_file_id",
        "library_ids", "skill_id", "vector_store_ids"
      ),
      opaque(
        "metadata", "parameters", "schema", "input_schema", "output_schema", "json_schema", "arguments", "annotations", "citations"
      ),
      -- A string is the id of a container; an object describes one, and may have its id.
      { container = { look = NO_OBJECT, field = "container", place = CONTAINER }, tools = { place = TOOL } }
    )
    RULES[TOP] = all(
      everywhere, choosing, reported("previous_response_id", "conversation", "tool_resources", "additional_drop_params"),
      -- The members of extra_body are read as if they were at the top (read_extra).
      opaque("documents", "guided_json", "structured_outputs", "chat_template_kwargs", "client_metadata", "extra_body"),
      { input = { place = ITEM } }
    )
    RULES[ANY] = all(everywhere, opaque("input", "input_examples", "env"), {
      audio = { place = AUDIO }, variables = { place = VARIABLES },
    })
    RULES[OPAQUE], RULES[VARIABLES] = {}, {}
    RULES[ITEM] = all(RULES[ANY], {
      id = { look = ITEM_ID, place = ANY },
      type = { look = ITEM_TYPE, place = ANY },
      role = { look = ITEM_ROLE, place = ANY },
      result = { look = ITEM_RESULT, place = ANY },
      content = { look = ITEM_TEXT, place = ANY },
      encrypted_content = { look = ITEM_TEXT, place = ANY },
    })
    RULES[TOOL] = all(RULES[ANY], { model = { look = FIELD, field = "tools[].model", place = ANY } })
    RULES[CONTAINER] = all(RULES[ANY], { id = { look = FIELD, field = "container", place = ANY } })
    RULES[AUDIO] = all(RULES[ANY], { id = { look = FIELD, field = "audio.id", place = ANY } })
  end

  -- The fields and all other names with rules, without what some servers ignore in names: Go's encoding/json folds
  -- case, readers of protobuf's JSON accept camelCase, and version 2 of Go's ignores dashes and underscores. Each has a
  -- number from 1 on.
  local FIELDS = {
    "model", "stream", "stream_options", "include_usage", "continuous_usage_stats", "background", "deferred", "max_tokens",
    "max_completion_tokens", "max_output_tokens", "n_predict", "n", "n_cmpl", "best_of", "prompt", "prompt_embeds",
    "candidate_count", "num_return_sequences", "min_tokens", "min_new_tokens", "thinking", "budget_tokens",
    "reasoning",
  }
  do
    local known = {}
    for _, name in ipairs(FIELDS) do known[name] = true end
    for _, rules in pairs(RULES) do
      for name in pairs(rules) do
        if not known[name] then FIELDS[#FIELDS + 1], known[name] = name, true end
      end
    end
  end

  -- Names are found by their first and last eight bytes in lower case. These are nearly the whole name, so most names
  -- need no Lua string; and the hash is perfect, so there is no loop.
  local SMALL_LETTERS, BITS = ONES * 0x20, 11
  local PLACED = ffi.new("struct { uint64_t first, last; int length, field; }[?]", 2 ^ BITS)
  -- A factor that makes it perfect. If names have changed, another is searched, which delays each thread's start by 50
  -- ms.
  local factor = 0xbdd5a5da41d878adULL

  local function folded(p, length)
    return bor(eight_bytes(p, length), SMALL_LETTERS), bor(eight_bytes(p + math.max(length - 8, 0), length), SMALL_LETTERS)
  end

  local function place_for(first, last, length)
    return tonumber(rshift((first + last * 31 + length) * factor, 64 - BITS))
  end

  local function put_all(names)
    ffi.fill(PLACED, ffi.sizeof(PLACED))
    for name, field in pairs(names) do
      local first, last = folded(ffi.new("uint8_t[64]", { byte(name, 1, #name) }), #name)
      local entry = PLACED[place_for(first, last, #name)]
      if entry.length ~= 0 then return false end
      entry.first, entry.last, entry.length, entry.field = first, last, #name, field
    end
    return true
  end

  do
    -- Frequent names that begin and end as others do.
    local names = { call_id = 0, tool_calls = 0 }
    for i, name in ipairs(FIELDS) do names[name], names[name:gsub("_", "")] = i, i end
    while not put_all(names) do factor = factor * 5 + 2 end
  end

  -- The name that was examined last, without dashes and underscores.
  local MOST_LETTERS, MOST_FIELDS, DASH, UNDERSCORE = 31, 128, 0x2d, 0x5f
  local letters = ffi.new("uint8_t[?]", MOST_LETTERS + 8)

  -- The number of the field with this name in any case, or -1.
  local function field_of(p, length)
    local first, last = folded(p, length)
    local at = place_for(first, last, length)
    if PLACED[at].first ~= first or PLACED[at].last ~= last or PLACED[at].length ~= length then return -1 end
    local field = PLACED[at].field
    if length > 16 and ffi.string(p, length):gsub("_", ""):lower() ~= FIELDS[field]:gsub("_", "") then return -1 end
    return field
  end

  -- The number of the field of which this name may be a spelling, or 0. Characters that fold to an ASCII letter count
  -- as that letter (check_fold), and a NUL ends the name.
  local function resembled_field(p, length)
    local field = field_of(p, length)
    if field >= 0 then return field end
    local count, at = 0, 0
    while at < length do
      local code = p[at]
      at = at + 1
      if code == 0 then break end
      if code > 0x7f then
        if code == 0xc5 and p[at] == 0xbf then
          code, at = 0x73, at + 1
        elseif code == 0xe2 and p[at] == 0x84 and p[at + 1] == 0xaa then
          code, at = 0x6b, at + 2
        elseif code == 0xc4 and (p[at] == 0xb0 or p[at] == 0xb1) then
          code, at = 0x69, at + 1
        end
      end
      if code ~= DASH and code ~= UNDERSCORE then
        if count == MOST_LETTERS then return 0 end
        letters[count], count = code, count + 1
      end
    end
    return math.max(field_of(letters, count), 0)
  end

  -- Refuses characters that no field of a model request has. For servers in C, a NUL ends a name. The others fold to
  -- ASCII letters: U+017F to s, U+212A to k, U+0130 and U+0131 to i.
  local function check_fold(p, length)
    for at = 0, length - 1 do
      local code, next = p[at], p[at + 1]
      if code == 0 or code == 0xc5 and next == 0xbf or code == 0xe2 and next == 0x84 and p[at + 2] == 0xaa
        or code == 0xc4 and (next == 0xb0 or next == 0xb1) then
        refuse("a field has a name that some parsers take for another")
      end
    end
  end

  -- The place of the container at a level.
  local places = ffi.new("uint8_t[?]", MOST_LEVELS + 1)
  places[1] = TOP

  -- The rules by number, and the places of their values. LOOK has how each value is examined.
  local NUMBERED, PLACE_OF = {}, ffi.new("uint8_t[256]", ANY)
  -- The number of the rule of a field at a place, or 0.
  local RULE = ffi.new("uint8_t[?]", (LAST_PLACE + 1) * MOST_FIELDS)
  -- Most names within a body have no rule. Each name with one has a bit, shared by names that begin with the same
  -- letter and have rules in the same places: BEGIN and END have the bits of the names that begin and end with a byte,
  -- MASK the bits of a place.
  local BEGIN, END, MASK = ffi.new("int32_t[256]"), ffi.new("int32_t[256]"), ffi.new("int32_t[?]", LAST_PLACE + 1)

  do
    local numbers, bits, last_bit = {}, {}, 0
    for i, name in ipairs(FIELDS) do
      local own, kind = 0, sub(name, 1, 1)
      for place = TOP + 1, LAST_PLACE do kind = kind .. (RULES[place][name] and "+" or "-") end
      for place, rules in pairs(RULES) do
        local rule = rules[name]
        if rule then
          if not numbers[rule] then
            NUMBERED[#NUMBERED + 1], numbers[rule] = rule, #NUMBERED + 1
            LOOK[#NUMBERED], PLACE_OF[#NUMBERED] = rule.look or 0, rule.place
          end
          RULE[place * MOST_FIELDS + i] = numbers[rule]
          if place ~= TOP then
            if not bits[kind] then bits[kind], last_bit = 2 ^ last_bit, last_bit + 1 end
            own = bits[kind]
            MASK[place] = bor(MASK[place], own)
          end
        end
      end
      for _, way in ipairs({ name, name:upper(), "_", "-" }) do
        BEGIN[byte(way)], END[byte(way, -1)] = bor(BEGIN[byte(way)], own), bor(END[byte(way, -1)], own)
      end
    end
  end

  -- The name at the top if it is one of `names`, else nil; and its rule. A name that only some servers read as one of
  -- `names` is refused; if that one only measures the size, the third result is the one that it resembles.
  function field_at_top(p, length, names, literal)
    if not literal then check_fold(p, length) end
    local meant = resembled_field(p, length)
    local rule, name = RULE[TOP * MOST_FIELDS + meant], FIELDS[meant]
    local asked = name and names[name]
    if not asked then return nil, rule end
    if literal and ffi.string(p, length) == name then return name, rule end
    if asked == true then refuse(SPELLED .. name) end
    return nil, rule, name
  end

  -- The rule of a name below the top, at a place with this mask.
  function rule_below(level, p, length, literal, mask)
    if mask == 0 or literal and band(BEGIN[p[0]], END[p[length - 1]], mask) == 0 then return 0 end
    return RULE[places[level] * MOST_FIELDS + resembled_field(p, length)]
  end

  -- Notes the place of the container that opens at a level; in an object, `rule` is the rule of its name. Returns the
  -- mask of the names that have rules in it.
  function enter_place(level, is_member, rule)
    local place = places[level - 1]
    if is_member and place ~= OPAQUE then place = PLACE_OF[rule] end
    places[level] = place
    return MASK[place]
  end

  function mask_at(level)
    return MASK[places[level]]
  end

  -- Flags of an item: it has an id, or a role or type that needs no data; it is an image or a reasoning item, and has
  -- its data. The data of a reasoning item is its text, plain or encrypted; a summary is not enough.
  local HAS_ID, HAS_KIND, IS_IMAGE, HAS_RESULT, IS_REASONING, HAS_TEXT = 1, 2, 4, 8, 16, 32
  local HAS = ffi.new("uint8_t[8]")
  HAS[ITEM_ID], HAS[ITEM_ROLE], HAS[ITEM_RESULT], HAS[ITEM_TEXT] = HAS_ID, HAS_KIND, HAS_RESULT, HAS_TEXT

  -- At the end of an item, reports it if it is only an id. Returns the flags of the item around it.
  function after_item(level, item, found)
    if not is_object[level] or places[level] ~= ITEM then return item end
    local needed = HAS_KIND
    if band(item, IS_REASONING) ~= 0 then needed = HAS_TEXT elseif band(item, IS_IMAGE) ~= 0 then needed = HAS_RESULT end
    if band(item, HAS_ID) ~= 0 and band(item, needed) == 0 then report(found, "item_reference") end
    return 0
  end

  -- Reports the field of a rule if the name that ends at `at` of the window has a value; null and an empty list count
  -- as none. Returns the flags of the item, which were `item`.
  do
    local SMALL_N, OPEN_BRACKET, CLOSE_BRACKET = 0x6e, 0x5b, 0x5d
    -- Bytes of a value that are examined.
    local GLANCE = 64
    local glance = ffi.new("uint8_t[?]", 2 * GLANCE)
    local COLON, SPACE = 0x3a, 0x20
    local reference = ffi.new("uint64_t[2]")
    ffi.copy(reference, '"item_reference"', 16)
    local image, reasoning = ffi.new("uint64_t[2]"), ffi.new("uint64_t[2]")
    ffi.copy(image, '"image_generation_call"', 16)
    ffi.copy(reasoning, '"reasoning"', 11)

    -- The position in the source of the first byte from `place` on other than white space.
    local function past_space_of(source, place)
      local room = GLANCE
      while true do
        local text = source:getBytes(place, math.min(room, source:length() - place))
        local spaces = find(text, "[^ \t\r\n]")
        if spaces or #text == 0 then return place + (spaces or 1) - 1 end
        place, room = place + #text, math.min(2 * room, WINDOW)
      end
    end

    -- The first bytes of the value after a name, followed by a NUL if there are no more, and its position in the source.
    local function value_after(source, base, p, at, last)
      local from = at + 1
      if p[from] == COLON then from = from + (p[from + 1] == SPACE and 2 or 1) end
      if from == at + 1 or p[from] <= SPACE then
        from = past_space(p, at + 1)
        from = from < last and past_space(p, from + 1) or last
      end
      if last - from >= GLANCE then return p + from, base + from end
      -- The window ends in the value or before it.
      local place = past_space_of(source, past_space_of(source, base + at + 1) + 1)
      local text = source:getBytes(place, math.min(GLANCE, source:length() - place))
      ffi.fill(glance, 2 * GLANCE)
      ffi.copy(glance, text, #text)
      return cast("const uint8_t*", glance), place
    end

    -- Whether the list that begins at `place` of the source has no items. `value` has its first bytes.
    local function is_empty_list(source, value, place)
      local next = value[past_space(value, 1)]
      if next ~= 0 then return next == CLOSE_BRACKET end
      place = past_space_of(source, place + 1)
      return place < source:length() and source:getBytes(place, 1) == "]"
    end

    -- Whether a text begins with an escape, or with plain letters before one. Only an attempt to hide a type writes it
    -- that way.
    local function has_escape(value)
      local at = 1
      while value[at] ~= QUOTE and value[at] ~= BACKSLASH and at < GLANCE do at = at + 1 end
      return value[at] == BACKSLASH
    end

    local function holds_backslash(eight)
      eight = bxor(eight, BACKSLASH_IN_EACH)
      return band(eight - ONES, bnot(eight), HIGH_BITS) ~= 0
    end

    local function is_reference(value)
      local first, second = cast(EIGHT, value)[0], cast(EIGHT, value)[1]
      if first == reference[0] and second == reference[1] then return true end
      return (holds_backslash(first) or holds_backslash(second)) and has_escape(value)
    end

    -- The flags that a type sets for its item.
    local function kind_of(value, found)
      if is_reference(value) then report(found, "item_reference") end
      local first, second = cast(EIGHT, value)[0], cast(EIGHT, value)[1]
      if first == image[0] and second == image[1] then return IS_IMAGE end
      if first == reasoning[0] and band(second, FIRST_BYTES[3]) == reasoning[1] then return IS_REASONING end
      return HAS_KIND
    end

    function follow(rule, item, found, source, base, p, at, last)
      local look, value, place = LOOK[rule], value_after(source, base, p, at, last)
      local first = value[0]
      if first == SMALL_N then return item end
      if look == ITEM_TYPE then return bor(item, kind_of(value, found)) end
      if first == OPEN_BRACKET and is_empty_list(source, value, place) then return item end
      if look > ITEM_TYPE then
        if look >= ITEM_RESULT and first == QUOTE and value[1] == QUOTE then return item end
        return bor(item, HAS[look])
      end
      if look == FIELD or first ~= OPEN_BRACE then report(found, NUMBERED[rule].field) end
      return item
    end
  end
end

-- Reads `source`, which must be one object. Returns the values of its members in `names`, as { first, last, text } with
-- positions from 0, and the position of its closing brace. Prompts are only counted, by the strings, lists and objects
-- in their lists, since they may be most of the body; a prompt that is no such list counts as one.
local function read_object(source, names)
  local size = source:length()
  buffer[MARGIN] = 0
  -- Positions are relative to the window, which begins at `base` of the source and has `last` bytes.
  local at, base, p, last = skip_space(source, 0, 0, 0)
  if p[at] ~= OPEN_BRACE then refuse("it is not a JSON object") end
  -- The values found, the field of `names` whose value is being read, where its name ended, and the number of prompts.
  local found, field, field_at, prompts = {}, nil, 0, 0
  local in_prompts = false
  local level = 1
  local escaped_names = 0
  -- The rule of the name that was read last, the names that have rules here, and the flags of the item.
  local rule, mask, item = 0, 0, 0
  -- The position of the last brace, bracket, comma or end of a name; the number of bytes after it from which a value
  -- may exceed a double.
  local mark, longest = at, LONG_NUMBER
  local current = FIRST_NAME
  is_object[1] = true
  open_object(1)
  while true do
    at = at + 1
    local next = NEXT[current + p[at]]
    if next < BEGINS_STRING then
      current = next
    elseif next == BEGINS_STRING then
      current = STRING
      -- Most of a body is text. Its plain bytes do not need the automaton.
      if PLAIN[p[at + 1]] then
        while true do
          local odd = not_plain(cast(EIGHT, p + at + 1)[0])
          if odd == 0 then
            at = at + 8
          else
            at = at + bytes_before(odd)
            if p[at + 1] ~= BACKSLASH or not ESCAPED[p[at + 2]] then break end
            at = at + 2
          end
        end
      end
    elseif next == SEPARATES or next == CLOSES_ARRAY or next == CLOSES_OBJECT then
      if at - mark > longest then
        local value_at = before_space(p, at - 1)
        if is_digit(p[value_at]) then check_number(p, mark, value_at) end
        longest = LONG_NUMBER
      end
      if level == 2 and in_prompts and not is_object[2] then
        local ended = p[before_space(p, at - 1)]
        if ended == QUOTE or ended == 0x5d or ended == 0x7d then prompts = prompts + 1 end
      elseif level == 1 and in_prompts then
        found.prompts = (found.prompts or 0) + math.max(1, prompts)
        field, in_prompts, prompts = nil, false, 0
      elseif level == 1 and field then
        local first, length = base + field_at + 1, at - field_at - 1
        local text = field_at >= 0 and ffi.string(p + field_at + 1, length) or source:getBytes(first, length)
        found[field] = value_in(text, first)
        field = nil
      end
      mark = at
      if next == SEPARATES then
        current = is_object[level] and NEXT_NAME or VALUE
      else
        if is_object[level] ~= (next == CLOSES_OBJECT) then not_json() end
        if item ~= 0 then item = after_item(level, item, found) end
        level = level - 1
        if level == 0 then
          local close = base + at
          local past, past_base = skip_space(source, base, at + 1, last)
          if past_base + past ~= size then refuse("something follows the object") end
          return found, close
        end
        current, mask = AFTER_VALUE, mask_at(level)
      end
    elseif next == OPENS_OBJECT or next == OPENS_ARRAY then
      level = level + 1
      if level > MOST_LEVELS then refuse("it is nested too deeply") end
      local opens_object = next == OPENS_OBJECT
      is_object[level] = opens_object
      mask = enter_place(level, is_object[level - 1], rule)
      if opens_object then open_object(level) end
      current = opens_object and FIRST_NAME or FIRST_ITEM
      mark = at
      -- Close an empty container at once, because a body of only these takes longest.
      if p[at + 1] == (opens_object and 0x7d or 0x5d) then
        at, level, current = at + 1, level - 1, AFTER_VALUE
        mark, mask = at, mask_at(level)
      end
    elseif next == NAME_ENDS or next == ESCAPED_NAME_ENDS then
      local first = mark + 2
      if p[first - 1] ~= QUOTE then first = past_space(p, first) + 1 end
      local name, length = p + first, at - first
      if next == ESCAPED_NAME_ENDS then
        escaped_names = escaped_names + 1
        if escaped_names > MOST_ESCAPED_NAMES then refuse("too many names have escapes") end
        name, length = decode(name, length)
      end
      if level == 1 then
        local misspelled
        field, rule, misspelled = field_at_top(name, length, names, next == NAME_ENDS)
        found.misspelled = found.misspelled or misspelled
        in_prompts = field == "prompt" or field == "prompt_embeds"
      else
        rule = rule_below(level, name, length, next == NAME_ENDS, mask)
      end
      if LOOK[rule] ~= 0 then item = follow(rule, item, found, source, base, p, at, last) end
      note_name(level, name, length)
      mark, current = at, BEFORE_COLON
      if level == 1 then field_at = at end
    elseif next == HAS_EXPONENT then
      current, longest = EXPONENT, 0
    elseif at < last or base + last == size then
      not_json()
    else
      -- The window ends. Names and numbers are retained until they end; other strings are not needed.
      local keep = current >= STRING and current < NAME and last or math.max(mark, 0)
      p, last = move_window(source, base, keep, last)
      base, at, mark, field_at = base + keep, at - keep - 1, mark - keep, field_at - keep
      if current == STRING then current = RESUMED end
    end
  end
end

-- The members of stream_options that ask for usage: at the end of a stream, or in each of its events, too.
local AT_END = { list = { "include_usage" }, names = { include_usage = true, continuous_usage_stats = "size" } }
local IN_EACH = {
  list = { "include_usage", "continuous_usage_stats" },
  names = { include_usage = true, continuous_usage_stats = true },
}

-- For a server that refuses these options and reports usage unasked (`spec.output.streamUsage`).
local NOT = { list = {}, names = {} }

-- The text that is added to a body without stream_options. The body's own options are stored up to this length, to be
-- restored.
local ASKED, LONGEST_OPTIONS = ',"stream_options":{"include_usage":true}', 4096

-- Adds the change that gives a body that was asked for usage before Check its own options again.
local function unask(changes, found, close, own)
  local options = found.stream_options
  if own == "" then
    changes[#changes + 1] = { close - #ASKED, close - 1, "" }
  else
    changes[#changes + 1] = { options.first, options.last, own }
  end
end

-- Adds the changes with which the body asks for usage by these members, each as { first, last, replacement } with
-- positions from 0. Returns the members that were not true, and whether usage is asked for in each event.
local function ask_for_usage(changes, options, close, members)
  local asked, brace = {}, nil
  if members == NOT then return asked end
  if options and byte(options.text) == OPEN_BRACE then
    asked, brace = read_object(source_of(options.text), members.names)
  elseif options and options.text ~= "null" then
    refuse("stream_options must be an object")
  end
  local added, missing = {}, {}
  for _, name in ipairs(members.list) do
    local field = asked[name]
    if not field then
      missing[#missing + 1] = '"' .. name .. '":true'
    elseif field.text == "false" or field.text == "null" then
      changes[#changes + 1] = { options.first + field.first, options.first + field.last, "true" }
    elseif field.text ~= "true" then
      refuse(name .. " must be true or false")
    end
    added[name] = not field or field.text ~= "true"
  end
  -- Servers also read 1 and "yes" as true.
  local own = asked.continuous_usage_stats
  local in_each = members == IN_EACH or own ~= nil and own.text ~= "false" and own.text ~= "null"
  if #missing == 0 then return added, in_each end
  missing = table.concat(missing, ",")
  if brace then
    local empty = past_space(cast("const uint8_t*", options.text), 1) == brace
    changes[#changes + 1] = { options.first + brace, options.first + brace - 1, (empty and "" or ",") .. missing }
  elseif options then
    changes[#changes + 1] = { options.first, options.last, "{" .. missing .. "}" }
  else
    changes[#changes + 1] = { close, close - 1, ',"stream_options":{' .. missing .. "}" }
  end
  return added, in_each
end

local STREAMED = { model = true, stream = true, stream_options = true, deferred = true, extra_body = true, n = "size" }
local NAMING, ANSWERING = { model = true, extra_body = true }, { model = true, background = true, extra_body = true }
-- Completions, if it is not known that they are counted: `deferred` is then only reported.
local COMPLETING = { model = true, deferred = "size", extra_body = true }

-- The fields for the maximum of an answer's output tokens, by operation. The first is added if the body has none of
-- them.
local MAXIMA = {
  { "/chat/completions$", { "max_completion_tokens", "max_tokens" } },
  { "/completions$", { "max_tokens" } },
  { "/responses$", { "max_output_tokens" } },
  { "/messages$", { "max_tokens" } },
}
-- llama.cpp reads the first two of these before any other, in all operations. So each of them is lowered, but only a
-- field of the operation is relied on.
local ALL_MAXIMA = { "n_predict", "max_completion_tokens", "max_tokens", "max_output_tokens" }
-- For models whose server reads no other (`spec.output.maxTokensField`).
local ONLY = { max_tokens = { "max_tokens" } }

local function maxima_of(path, only)
  for i, each in ipairs(MAXIMA) do
    if find(path, each[1]) then return i == 1 and ONLY[only] or each[2] end
  end
end

-- The fields with the number of answers: to the same prompt, or to each of several. llama.cpp reads n_cmpl before n.
local COUNTS = { "n", "best_of", "n_cmpl", "candidate_count", "num_return_sequences" }
-- The fields for the minimum of an answer's output tokens; and objects with a number that the maximum must exceed.
local MINIMA = { "min_tokens", "min_new_tokens" }
local BUDGETS = { thinking = { budget_tokens = "size" }, reasoning = { max_tokens = "size" } }

-- These fields, and the fields that determine the amount of output. Names that only some servers treat as one of the
-- latter are reported to Check, which refuses them where a subscription reserves, or where only one answer is counted.
local measured = {}
local function with_maxima(names)
  local all = measured[names]
  if not all then
    all = { prompt = "size", prompt_embeds = "size" }
    for _, list in ipairs({ ALL_MAXIMA, COUNTS, MINIMA }) do
      for _, name in ipairs(list) do all[name] = "size" end
    end
    for name in pairs(BUDGETS) do all[name] = "size" end
    for name, how in pairs(names) do all[name] = how end
    measured[names] = all
  end
  return all
end

-- The number in a field, which some servers also read from a string; nil for anything else.
local function number_in(field)
  return field and tonumber(match(field.text, '^"?([%d%.eE+-]+)"?$'))
end

local function is_given(field)
  return field and field.text ~= "null"
end

local MOST_CHOICES, MOST_TOKENS = 1e6, 1e12

-- The number of answers: to each prompt, as many as the fields ask for. Also returns why it is unknown, such as a field
-- that servers could read differently.
local function choices_in(found)
  local most, unclear = 1, nil
  for _, name in ipairs(COUNTS) do
    local own = number_in(found[name])
    if own then most = math.max(most, own) elseif is_given(found[name]) then unclear = name .. " must be a number" end
  end
  local choices = most * math.max(1, found.prompts or 1)
  if not (choices <= MOST_CHOICES) then choices, unclear = 1, ("it asks for more than %d answers"):format(MOST_CHOICES) end
  return math.ceil(choices), unclear
end

-- The minimum of output tokens with which an answer is valid, if its own maximum is `most`. Interleaved thinking may
-- have a budget above the maximum, which then does not affect it.
local function least_in(found, most)
  local least = 1
  for _, name in ipairs(MINIMA) do least = math.max(least, number_in(found[name]) or 1) end
  for name, members in pairs(BUDGETS) do
    local field = found[name]
    if field and byte(field.text) == OPEN_BRACE then
      local budget = number_in(read_object(source_of(field.text), members)[next(members)])
      if budget and budget < most then least = math.max(least, math.floor(budget) + 1) end
    end
  end
  return math.ceil(math.min(MOST_TOKENS, least))
end

-- For Check: the bytes of the body, the maximum of an answer's output tokens (empty if unknown), the number of answers,
-- the minimum of output tokens of each, and if these are unknown, the reason.
local function size_of(length, found, maxima)
  local choices, unclear = choices_in(found)
  local most, is_known = 0, false
  for _, name in ipairs(maxima) do is_known = is_known or is_given(found[name]) end
  for _, name in ipairs(ALL_MAXIMA) do
    if is_given(found[name]) then
      local own = number_in(found[name]) or math.huge
      most = math.max(most, own >= 1 and own or math.huge)
    end
  end
  is_known = is_known and most <= MOST_TOKENS
  local least = least_in(found, is_known and most or math.huge)
  local problem = found.misspelled and SPELLED .. found.misspelled or found.extra or unclear or ""
  return ("%d;%s;%d;%d;%s"):format(length, is_known and ("%d"):format(math.ceil(most)) or "", choices, least, problem)
end

-- Adds the changes that limit the output of all answers together to `ceiling` tokens, if there is one, and that put the
-- maximum into the first of `maxima`, or into another of these.
local function cap_output(changes, found, close, maxima, ceiling, is_empty)
  -- Check knew the number of answers: each has at least one token.
  local most = ceiling and math.max(1, math.floor(ceiling / choices_in(found))) or math.huge
  local value = most
  for _, name in ipairs(ALL_MAXIMA) do
    local field = found[name]
    if is_given(field) then
      local own = number_in(field)
      if own and own >= 1 and own <= most then
        -- The server does not read the client's own maximum there.
        if maxima == ONLY.max_tokens and name == "max_completion_tokens" then value = math.floor(math.min(MOST_TOKENS, own)) end
      elseif ceiling then
        changes[#changes + 1] = { field.first, field.last, ("%d"):format(most) }
      end
    end
  end
  local empty = nil
  for _, name in ipairs(maxima) do
    if is_given(found[name]) then return end
    empty = empty or found[name]
  end
  if value == math.huge then return end
  value = ("%d"):format(value)
  if empty then
    changes[#changes + 1] = { empty.first, empty.last, value }
  else
    changes[#changes + 1] = { close, close - 1, (is_empty and "" or ",") .. '"' .. maxima[1] .. '":' .. value }
  end
end

-- In place of a model that is not a string. No model has this name.
local NO_NAME = "\0"

local NOT_EXTRA = "extra_body must not have "

-- Reads the members of `extra_body` as if they were at the top, where LiteLLM sends them in place of the body's own:
-- members that name a stored object or choose a model are reported, and other members that are read for counting must
-- be absent.
local function read_extra(found, names)
  local extra = found.extra_body
  if not is_given(extra) then return end
  if byte(extra.text) ~= OPEN_BRACE then refuse("extra_body must be an object") end
  local own = read_object(source_of(extra.text), names)
  for _, field in ipairs(own.fields or {}) do
    report(found, CLOSED_AS[field] == "choosing" and "extra_body" or field)
  end
  for name, how in pairs(names) do
    if name == "model" then
      if is_given(own.model) then report(found, "extra_body") end
    elseif how == "size" then
      if is_given(own[name]) then found.extra = NOT_EXTRA .. name end
    elseif is_given(own[name]) then
      refuse(NOT_EXTRA .. name)
    end
  end
  if own.misspelled then found.extra = NOT_EXTRA .. own.misspelled end
  if own.prompts then found.extra = NOT_EXTRA .. "prompt" end
end

-- The fields of a body with these names, and the position of its closing brace.
local function read_body(body, names)
  local found, close = read_object(body, names)
  if found.extra_body then read_extra(found, names) end
  return found, close
end

-- The model that a body names, or nil.
local function model_in(found)
  local model = found.model and found.model.text
  if not model or model == '""' then return nil end
  return byte(model) == QUOTE and unescape(sub(model, 2, -2)) or NO_NAME
end

local NOTHING = {}

-- Adds the changes that make a stream report its usage, with these members of its options. Returns the members that
-- were added, and whether usage is asked for in each event.
local function ask_if_stream(changes, found, close, members)
  local stream = found.stream and found.stream.text
  if stream == "true" then return ask_for_usage(changes, found.stream_options, close, members) end
  if stream and stream ~= "false" and stream ~= "null" then refuse("stream must be true or false") end
  return NOTHING
end

local function earlier(one, other) return one[1] < other[1] end

-- The text of a body with all changes. Each part is copied once, because a body may be long and Envoy does not see
-- Lua's memory.
local function changed(body, length, changes)
  table.sort(changes, earlier)
  local parts, from = {}, 0
  for _, change in ipairs(changes) do
    if change[1] > from then parts[#parts + 1] = body:getBytes(from, change[1] - from) end
    parts[#parts + 1], from = change[3], change[2] + 1
  end
  if length > from then parts[#parts + 1] = body:getBytes(from, length - from) end
  return table.concat(parts)
end

-- The change that sets the model's name on its server, which Check sends.
local function naming_of(model, name)
  if not model then refuse("it must name the model") end
  return { model.first, model.last, '"' .. name .. '"' }
end

-- The compiler specializes its code on the first bodies, and after an unfortunate choice a body can take ten times as
-- long. So it first sees the loop over bytes alone, then the loop over plain text with escapes, then chats.
local function show(text)
  local found, close = read_body(source_of(text), STREAMED)
  ask_if_stream({}, found, close, AT_END)
end

-- The id of a thread.
local function id_in(path)
  local file = io.open(path)
  local id = file and file:read("*n")
  if file then file:close() end
  return id
end

-- Envoy also loads its scripts in its main thread, twice, which gets no request. If /proc cannot be read, any thread
-- may get one.
local own = id_in("/proc/thread-self/stat")
IS_MAIN_THREAD = own ~= nil and own == id_in("/proc/self/stat")
if not IS_MAIN_THREAD then
  show('{"a":' .. (" "):rep(4000) .. "1}")
  show('{"a":"' .. ("x"):rep(4000) .. ("Hello, how are you?\\n"):rep(400) .. '"}')
  local CHAT = '{"model":"m","messages":[' .. ('{"role":"user","content":"Hello, how are you?"},'):rep(200) .. '{}],"stream":true}'
  for _ = 1, 20 do show(CHAT) end
end

local JSON = "application/json"

-- Refuses charsets other than UTF-8, in any spelling of the parameter.
local function check_label(label)
  local lower = label:lower()
  if not find(lower, "charset", 1, true) then return end
  local charset = match(lower, '^[^;"]*;%s*charset%s*=%s*"?([^%s;"]+)"?%s*$')
  if charset ~= "utf-8" and charset ~= "utf8" and charset ~= "us-ascii" then refuse("it must be UTF-8") end
end

-- A model server chooses the format of its response by this header, and usage.lua reads only these two.
local LONGEST_ACCEPT = 1024

local function drop_odd_accept(headers)
  local accept = headers:get("accept")
  if not accept or accept == "*/*" or accept == JSON then return end
  if #accept > LONGEST_ACCEPT then return headers:remove("accept") end
  for range in accept:lower():gmatch("[^,]+") do
    local kind = match(range, "^%s*([^%s;]+)")
    if kind ~= JSON and kind ~= "text/event-stream" and kind ~= "*/*" then
      return headers:remove("accept")
    end
  end
end

local BODILESS = { GET = true, HEAD = true, OPTIONS = true }
local UNKNOWN = '"message":"The model %sdoes not exist or you have no access to it; GET /v1/models lists yours.","type":"%s"'
local LONGEST_QUOTED = 100

-- The name in quotes, for a message; empty if it needs escapes or is long, as no model's name does.
local function quoted(model)
  if #model > LONGEST_QUOTED or not find(model, "^[%w%-%._/:@ ]+$") then return "" end
  return '\\"' .. model .. '\\" '
end

-- If the path names a model with known ids, which Check sends separated by tabs, the body must name one of
-- them, because one server often serves several models.
local function check_model(ids, model)
  if not model then refuse("it must name the model") end
  if find(model, "\t", 1, true) or not find("\t" .. ids .. "\t", "\t" .. model .. "\t", 1, true) then
    error({ model = quoted(model) }, 0)
  end
end

-- The name as a header value. No model has a name with a control character, or one this long.
local LONGEST_NAME = 1024
local function as_header(model)
  if #model > LONGEST_NAME then return sub(model, 1, LONGEST_NAME) .. "..." end
  return (model:gsub("[%c]", "\\"))
end

-- The fields that matter for this operation. Chat and completions report the usage of a stream only on request. Some
-- servers do not know the option for completions, so it is used there only if the tokens are counted.
local function names_for(path, asked)
  if find(path, "/chat/completions$") then return STREAMED end
  if find(path, "/responses$") then return ANSWERING end
  if not find(path, "/completions$") then return NAMING end
  return asked.is_metered and STREAMED or COMPLETING
end

-- With these a response is fetched by another request, whose usage is not counted. A server may treat any value except
-- the latter as true.
local LATER, NOT_LATER = { "background", "deferred" }, { ["false"] = true, null = true }
-- Why these are refused where tokens are counted.
local UNCOUNTED = {
  -- With it LiteLLM omits a maximum, or the request for usage, when it calls the model.
  additional_drop_params = "additional_drop_params may leave out a maximum, or the request for the usage that is counted",
}
for _, name in ipairs(LATER) do
  UNCOUNTED[name] = name .. " must be false or left out, because the tokens of such a response are not counted"
end
local CLOSED = {
  choosing = " may choose another model or account than the one that is checked and counted; spec.modelFields of the ModelRef allows it",
  internal = " is for the servers of a model, and may give access to the memory of other requests there; spec.modelFields of the ModelRef allows it",
  stored = " names what is stored in the account that all callers of this model share; spec.state: shared of its ModelRef allows it",
}

-- Refuses the first field that the model does not open. If the body's name is compared with the model's, or replaced,
-- nothing else may choose a model.
local function judge_fields(asked, fields)
  local opened = " " .. (asked.open or "") .. " "
  local is_named = asked.models or asked.upstream_model
  for _, field in ipairs(fields) do
    if UNCOUNTED[field] then
      if asked.is_metered then refuse(UNCOUNTED[field]) end
    elseif CLOSED_AS[field] then
      local applies = is_named or CLOSED_AS[field] == "internal"
      if applies and not find(opened, " " .. field .. " ", 1, true) then refuse(field .. CLOSED[CLOSED_AS[field]]) end
    elseif not find(opened, " state ", 1, true) then
      refuse(field .. CLOSED.stored)
    end
  end
end

-- Reads the body and changes it as `asked` requires. Raises its fault.
local function judge(handle, path, asked)
  local body = handle:body()
  -- Not earlier: a headers object is not valid after waiting for the body.
  local headers = handle:headers()
  drop_odd_accept(headers)
  local bodiless = not asked.is_post and BODILESS[headers:get(":method")]
  local length = body and body:length() or 0
  if length == 0 then
    return bodiless or refuse("there is none")
  end
  if bodiless then refuse("this method takes none") end
  if headers:get("content-encoding") then refuse("a content-encoding is not accepted") end
  local label = headers:get("content-type")
  if label ~= JSON then check_label(label or "") end
  local maxima, names = maxima_of(path, asked.maximum), names_for(path, asked)
  if maxima and (asked.is_first or asked.ceiling or asked.maximum) then names = with_maxima(names) end
  local found, close = read_body(body, names)
  local model = model_in(found)
  for _, name in ipairs(LATER) do
    if found[name] and not NOT_LATER[found[name].text] then report(found, name) end
  end
  -- With `choose`, the request may be decided now. Check decides about fields that only some models close.
  local plan = asked.choose and model and not found.fields and asked:choose(headers, model)
  if plan then asked = plan end
  if plan and plan.maximum then maxima = maxima_of(path, plan.maximum) end
  local changes = {}
  local members = asked.chunk_usage == "unasked" and NOT or asked.chunk_usage and IN_EACH or AT_END
  local added, in_each = ask_if_stream(changes, found, close, members)
  -- Before Check, it is not known which fields the model opens. Check decides by this header, so not again after it.
  if found.fields and asked.is_first then
    headers:replace("x-tollgate-refusal", "fields " .. table.concat(found.fields, ","))
  elseif found.fields and not asked.is_again then
    judge_fields(asked, found.fields)
  end
  if asked.models then check_model(asked.models, model) end
  if label ~= JSON then headers:replace("content-type", JSON) end
  if asked.is_first and model and model ~= NO_NAME then headers:replace("x-tollgate-model", as_header(model)) end
  if asked.is_first and maxima then headers:replace("x-tollgate-size", size_of(length, found, maxima)) end
  local is_empty = find(body:getBytes(0, math.min(length, 64)), "^%s*{%s*}")
  if asked.upstream_model then changes[#changes + 1] = naming_of(found.model, asked.upstream_model) end
  if maxima and (asked.ceiling or asked.maximum) then cap_output(changes, found, close, maxima, asked.ceiling, is_empty) end
  local metadata = handle:streamInfo():dynamicMetadata()
  local earlier_body = members == NOT and metadata:get("tollgate.body")
  if earlier_body and earlier_body.usage_added and earlier_body.options then
    unask(changes, found, close, earlier_body.options)
    metadata:set("tollgate.body", "usage_added", false)
  end
  if #changes > 0 then body:setBytes(changed(body, length, changes)) end
  if added.include_usage then
    metadata:set("tollgate.body", "usage_added", true)
    -- Before Check, it is not known which options the server accepts.
    local own = found.stream_options and found.stream_options.text or ""
    if asked.is_first and #own <= LONGEST_OPTIONS then metadata:set("tollgate.body", "options", own) end
  end
  if added.continuous_usage_stats then metadata:set("tollgate.body", "usage_in_each", true) end
  -- The usage of an event is then that of its choice.
  if in_each then metadata:set("tollgate.body", "choices", math.max(1, number_in(found.n) or 1)) end
end

-- Clients of Anthropic's API expect another envelope.
local function is_messages(path)
  return find(path, "/v1/messages$") or find(path, "/v1/messages/")
end

local function respond(handle, path, status, text, code)
  local messages = is_messages(path)
  local headers = { [":status"] = status, ["content-type"] = "application/json" }
  if status == "401" then headers["www-authenticate"] = "Bearer" end
  -- As in Check's responses: the same request would be refused again.
  if status ~= "400" then headers["x-should-retry"] = "false" end
  if code == "model_not_allowed" then headers["x-ext-auth-reason"] = "unauthorized" end
  handle:streamInfo():dynamicMetadata():set("tollgate.body", "refused", true)
  handle:respond(
    headers,
    messages and '{"type":"error","error":{' .. text .. "}}" or '{"error":{' .. text .. ',"code":"' .. code .. '"}}'
  )
end

local NO_CREDENTIAL = '"message":"A credential is needed: Authorization: Bearer <API key>.","type":"authentication_error"'

-- Refuses a request without a credential before any of its body is held. Check decides whether the credential is valid.
-- Returns whether the request continues.
function require_credential(handle, path)
  local headers = handle:headers()
  local bearer = (headers:get("authorization") or ""):lower()
  if find(bearer, "^bearer +[!-~]") or find(headers:get("x-api-key") or "", "[!-~]") then return true end
  respond(handle, path, "401", NO_CREDENTIAL, "credential_invalid")
  return false
end

-- Waits for the body, checks it, and makes the changes that are asked. Returns whether the body is acceptable; otherwise
-- the fault is reported to the client, whose request ends, or with `is_first` to Check. `asked` has:
--   is_first           Check has not answered yet: the body names the model, or Check needs its size
--   choose             with `is_first`: a method that returns the plan by headers and model, or nil
--   is_again           the body was read before
--   is_metered         the tokens of the response are counted
--   is_post            the method is known to be POST
--   models, open, upstream_model, ceiling, maximum, chunk_usage   Check's headers of these names
function read_request(handle, path, asked)
  -- An error outside pcall would let the request pass unchecked.
  local fine, problem = pcall(judge, handle, path, asked)
  release()
  collect_if_large()
  if fine then return true end
  if type(problem) ~= "table" then
    handle:logErr(tostring(problem))
    problem = { message = "it could not be read" }
  end
  if asked.is_first then
    handle:headers():replace("x-tollgate-refusal", problem.message)
    return false
  end
  if problem.model then
    -- As Check does: Anthropic's clients try another model after a 404.
    local status, kind = "403", "permission_error"
    if is_messages(path) then status, kind = "404", "not_found_error" end
    respond(handle, path, status, UNKNOWN:format(problem.model, kind), "model_not_allowed")
  else
    local text = '"message":"The request body is refused: ' .. problem.message .. '.","type":"invalid_request_error"'
    respond(handle, path, "400", text, "invalid_body")
  end
  return false
end
