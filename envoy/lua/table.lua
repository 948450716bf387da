-- Decides requests by the table, a file with requests that Check has allowed, which the service writes: a request that
-- is in it and below its limits passes without Check. All other requests, and unusual ones, are decided by Check
-- (docs/table.md; the format is in src/table/rules/format.ts).
--
-- Each part is read with one pread and has a checksum: a mapped file that is truncated would crash Envoy. Only the head
-- is cached, for a few milliseconds, and templates, which never change in a file.
local ffi = require("ffi")
local byte, find, floor, format, match = string.byte, string.find, math.floor, string.format, string.match

-- The path of the file. The service fills it in; if it is empty, Check decides everything.
local TABLE = ""

ffi.cdef([[
  typedef struct {
    uint64_t magic; uint32_t form, generation; double file, lease, clock;
    uint32_t buckets, blocks, templates, lanes, rest[9]; int32_t check;
  } table_head;
  typedef struct {
    int32_t digest[8]; uint32_t generation, template, block, block2, state, text_bytes;
    double trusted_until, ends_at, input_per_byte, bytes_per_token; char text[160]; uint32_t rest; int32_t check;
  } table_record;
  typedef struct { double start, end_, offset, next_end, next_offset; } table_cell;
  typedef struct { uint32_t cells, flags; double fresh_until; table_cell cell[6]; uint32_t name[2], rest[13]; int32_t check; } table_block;
  typedef struct { uint32_t length, rest; char text[2036]; int32_t check; } table_template;
  typedef struct { uint32_t name[2], block; int32_t check; } table_name;
]])
local C = ffi.C

-- O_NONBLOCK, O_CLOEXEC; read-only.
local OPTIONS = 2048 + 524288
local BOOTTIME = 7
-- "TGTABLE1", little-endian.
local MAGIC, FORM = 0x31454c4241544754ULL, 2
local HEAD_BYTES, RECORD_BYTES, BLOCK_BYTES, TEMPLATE_BYTES, NAME_BYTES, BUCKETS_AT = 96, 256, 320, 2048, 16, 4096
local SLOTS, CELLS, LONGEST_TEMPLATE, NO_BLOCK, IN_FORCE = 8, 6, 2036, 0xffffffff, 1
-- How long a head is cached, and the longest lease (ms); how far the clocks may differ from the service's (ms).
local HEAD_FOR, LONGEST_LEASE, MOST_DRIFT = 5, 5000, 500
-- Milliseconds after which the files are looked up again, also while none is in force; less than the age of a block
-- before a decision needs it (`settledMs` of src/table/table.ts).
local OPEN_FOR, CLOSED_FOR = 1000, 1
-- Maximum number of templates in the cache.
local MOST_PLANS = 512

local time = ffi.new("long[2]")
local head, fresh_head = ffi.new("table_head"), ffi.new("table_head")
local bucket, block, template = ffi.new("table_record[?]", SLOTS), ffi.new("table_block"), ffi.new("table_template")
local named = ffi.new("table_name[?]", SLOTS)
local starts = ffi.new("double[?]", CELLS)
local descriptor, looked_at, read_at = -1, -1e9, -1e9
-- Why no table is in force.
local why_closed = "off"
local plans, plan_count = {}, 0

-- Milliseconds since the machine booted; `now_ms` of line.lua has milliseconds since the epoch.
local function boot_ms()
  C.clock_gettime(BOOTTIME, time)
  return tonumber(time[0]) * 1000 + floor(tonumber(time[1]) / 1000000)
end

local function read_part(from, part, bytes, at)
  return C.pread(from, part, bytes, at) == bytes and check_sum(part, bytes) == part.check
end

local function read_head(from, into)
  return read_part(from, into, HEAD_BYTES, 0) and into.magic == MAGIC and into.form == FORM and into.buckets > 0
end

local function close_table(why)
  if descriptor >= 0 then C.close(descriptor) end
  descriptor, why_closed = -1, why
  close_lanes()
end

-- Looks up the files. Open ones stay open unless they were replaced.
local function look(now)
  looked_at = now
  local found = C.open(TABLE, OPTIONS)
  if found < 0 then return close_table("off") end
  if not read_head(found, fresh_head) then
    C.close(found)
    return close_table("closed")
  end
  if descriptor >= 0 and fresh_head.file == head.file then return C.close(found) end
  close_table("closed")
  if fresh_head.lease == 0 or not open_lanes(fresh_head.file, fresh_head.lanes) then
    C.close(found)
    return close_lanes()
  end
  ffi.copy(head, fresh_head, HEAD_BYTES)
  descriptor, read_at, plans, plan_count = found, now, {}, 0
end

-- Why the table is not in force, or nil if it is. `believed`: how long a head is cached (ms).
local function why_not(boot, real, believed)
  if descriptor >= 0 and (boot - read_at > believed or boot < read_at) then
    -- The head is read into another buffer: a torn one must not be used.
    if read_head(descriptor, fresh_head) and fresh_head.file == head.file and fresh_head.lease > 0 then
      ffi.copy(head, fresh_head, HEAD_BYTES)
      read_at = boot
    else
      close_table("closed")
      looked_at = -1e9
    end
  end
  local is_open = descriptor >= 0 and head.lease > boot
  if boot - looked_at >= (is_open and OPEN_FOR or CLOSED_FOR) or boot < looked_at then look(boot) end
  if descriptor < 0 then return why_closed end
  if head.lease <= boot or head.lease > boot + LONGEST_LEASE then return "closed" end
  if math.abs(real - boot - head.clock) >= MOST_DRIFT then return "clock" end
end

-- The offsets of the parts after the records.
local function blocks_at() return BUCKETS_AT + head.buckets * SLOTS * RECORD_BYTES end
local function templates_at() return blocks_at() + head.blocks * BLOCK_BYTES end
local function names_at() return templates_at() + head.templates * TEMPLATE_BYTES end

-- The template of many requests (src/table/rules/hit-plan.ts), by the names in the other scripts.
local function read_plan(number)
  local at = templates_at() + number * TEMPLATE_BYTES
  if number >= head.templates or not read_part(descriptor, template, TEMPLATE_BYTES, at) then return nil end
  if template.length > LONGEST_TEMPLATE then return nil end
  local lines = {}
  for line in ffi.string(template.text, template.length):gmatch("([^\n]*)\n") do lines[#lines + 1] = line end
  if #lines < 9 then return nil end
  local function given(line) return lines[line] ~= "" and lines[line] or nil end
  local plan = {
    -- gate.lua looks up only POST requests in the table.
    is_post = true,
    is_metered = true,
    flags = lines[1],
    is_estimated = find(lines[1], "e", 1, true) ~= nil,
    is_anthropic = find(lines[1], "a", 1, true) ~= nil,
    subject = lines[2],
    path = lines[3],
    models = given(4),
    open = given(5),
    chunk_usage = given(6),
    maximum = given(7),
    policy = lines[8],
    -- For each limit: the beginning of its header item, its value as a number and as text, and whether it belongs to
    -- the key.
    items = {},
    limits = {},
    limit_texts = {},
    of_key = {},
    -- Names and values alternate.
    headers = {},
  }
  for name, limit, scope in lines[9]:gmatch("([^:,]+):(%d+):([uk])") do
    local place = #plan.limits + 1
    plan.items[place] = '"' .. name .. '";r='
    plan.limits[place], plan.limit_texts[place], plan.of_key[place] = tonumber(limit), limit, scope == "k"
  end
  for line = 10, #lines do
    local name, value = match(lines[line], "^([%l-]+): (.*)$")
    if not name then return nil end
    plan.headers[#plan.headers + 1], plan.headers[#plan.headers + 2] = name, value
  end
  return plan
end

local function plan_of(number)
  local plan = plans[number]
  if plan then return plan end
  if plan_count == MOST_PLANS then plans, plan_count = {}, 0 end
  plan = read_plan(number)
  if plan then plans[number], plan_count = plan, plan_count + 1 end
  return plan
end

local function read_block(number)
  local at = blocks_at() + number * BLOCK_BYTES
  return number < head.blocks and read_part(descriptor, block, BLOCK_BYTES, at) and block.cells > 0 and block.cells <= CELLS
end

-- The start of the window of the cell at `real`, its end, and its sum without the lanes; nil if unknown.
local function window_at(cell, real)
  if real < cell.start then return nil end
  if real < cell.end_ then return cell.start, cell.end_, cell.offset end
  if real < cell.next_end then return cell.end_, cell.next_end, cell.next_offset end
end

-- The remaining amount of each limit, and its reset. Valid until the next decision.
local left, resets_at = ffi.new("double[?]", 2 * CELLS), ffi.new("double[?]", 2 * CELLS)

-- Why the limits of the block that was read, from `cell` on, refuse the request; nil if they allow it. Recursive,
-- because the compiler gives up on a loop that usually exits after a turn or two, and on all its callers.
local function why_limited(cell, plan, before, share, real)
  if cell >= block.cells then return nil end
  local limit = plan.limits[before + cell + 1]
  local start, ends_at, used = window_at(block.cell[cell], real)
  local added = start and added_in(cell, start)
  if not limit or not added then return "window" end
  used = used + added
  if not (used < limit / share) then return "limit" end
  left[before + cell], resets_at[before + cell] = math.min(limit, limit - used), ends_at
  return why_limited(cell + 1, plan, before, share, real)
end

-- Reads the limits of a block, after the limits of `before`. Returns the total number of limits and the block's name;
-- nil and the reason if they refuse the request.
local function read_limits(number, plan, before, boot, real)
  if not read_block(number) then return nil, "stale" end
  if boot >= block.fresh_until then return nil, "fresh" end
  if not read_lanes(number) then return nil, "closed" end
  -- The flag: other gateways draw on these limits, too, so only half may be used.
  local why = why_limited(0, plan, before, bit.band(block.flags, 1) == 1 and 2 or 1, real)
  if why then return nil, why end
  return before + block.cells, format("%08x%08x", block.name[0], block.name[1])
end

-- Whether the limit at `one` binds more than the one at `other` (src/ratelimit/rules/limit-headers.ts).
local function binds_more(plan, one, other)
  local share = left[one] / plan.limits[one + 1] - left[other] / plan.limits[other + 1]
  if share ~= 0 then return share < 0 end
  if plan.of_key[one + 1] ~= plan.of_key[other + 1] and left[one] ~= left[other] then return left[one] < left[other] end
  return resets_at[one] > resets_at[other]
end

local function reset_text(at, now, is_anthropic)
  if is_anthropic then return os.date("!%Y-%m-%dT%H:%M:%SZ", math.ceil(at / 1000)) end
  local wait = at - now
  if wait <= 999 then return format("%dms", math.max(1, math.ceil(wait))) end
  local seconds = math.ceil(wait / 1000)
  if seconds < 60 then return format("%ds", seconds) end
  if seconds < 3600 then return format("%dm%ds", floor(seconds / 60), seconds % 60) end
  return format("%dh%dm%ds", floor(seconds / 3600), floor(seconds / 60) % 60, seconds % 60)
end

-- The limits for the response: the policy, the limit that binds, its remaining amount, its reset, and all limits; empty
-- without limits.
local function limits_text(plan, count, now)
  if count == 0 then return "\t\t\t\t" end
  local items, binding = "", 0
  for at = 0, count - 1 do
    if at > 0 and binds_more(plan, at, binding) then binding = at end
    local seconds = math.max(1, math.ceil((resets_at[at] - now) / 1000))
    local shown = math.min(left[at], 999999999999999) -- toFieldInteger (src/ratelimit/rules/limit-headers.ts)
    items = format("%s%s%s%d;t=%d", items, at > 0 and ", " or "", plan.items[at + 1], shown, seconds)
  end
  return format(
    "%s\t%s\t%d\t%s\t%s", plan.policy, plan.limit_texts[binding + 1], left[binding],
    reset_text(resets_at[binding], now, plan.is_anthropic), items
  )
end

-- The request's part of the line (src/usage/rules/line-head.ts). `bytes` is the length of its body.
local function line_head(plan, record, id, started_at, bytes)
  local held = ""
  if plan.is_estimated then
    local input = floor(record.input_per_byte * bytes + 0.5)
    held = format(',"held":{"at":0,"bytes":%d},"estimate":"%d;%.2f"', bytes, input, record.bytes_per_token)
  end
  local text = ffi.string(record.text, math.min(record.text_bytes, 160))
  return format('{"start":%.0f,"id":"%s","by":"table",%s,%s%s}', started_at, id, plan.subject, text, held)
end

-- The slot of the record with this digest in the bucket that was read, or -1. No early exit, because the compiler does
-- not compile such a loop, either.
local function slot_of(digest)
  local found = -1
  for slot = SLOTS - 1, 0, -1 do
    local own = bucket[slot].digest
    if own[0] == digest[0] and own[1] == digest[1] and own[2] == digest[2] and own[3] == digest[3]
      and own[4] == digest[4] and own[5] == digest[5] and own[6] == digest[6] and own[7] == digest[7] then
      found = slot
    end
  end
  return found
end

-- Decides a request by its `credential`, the whole `path`, and the model of its body if the path names none; with its
-- `id`, its start and the length of its body. Returns the plan, the request's part of the line, and the data for its
-- response, separated by tabs: flags, limits and the names of its blocks; nil and the reason if Check has to decide.
local function decide(credential, path, model, id, started_at, bytes)
  local boot, real = boot_ms(), now_ms()
  local why = why_not(boot, real, HEAD_FOR)
  if why then return nil, why end
  -- Check decides traced requests, because its spans have the service's details.
  if byte(id, 15) ~= 52 then return nil, "traced" end
  local digest = sha256_of(credential, path, model)
  if not digest then return nil, "shape" end
  local at, bytes_of_bucket = bit.band(digest[0], 0x7fffffff) % head.buckets, SLOTS * RECORD_BYTES
  if C.pread(descriptor, bucket, bytes_of_bucket, BUCKETS_AT + at * bytes_of_bucket) ~= bytes_of_bucket then return nil, "closed" end
  local slot = slot_of(digest)
  if slot < 0 then return nil, "unknown" end
  local record = bucket[slot]
  if record.state ~= IN_FORCE or record.generation ~= head.generation or check_sum(record, RECORD_BYTES) ~= record.check
    or boot >= record.trusted_until or real >= record.ends_at then
    return nil, "stale"
  end
  local plan = plan_of(record.template)
  if not plan then return nil, "stale" end
  local count, lane, other = 0, "", nil
  if record.block ~= NO_BLOCK then
    count, lane = read_limits(record.block, plan, 0, boot, real)
    if not count then return nil, lane end
  end
  if record.block2 ~= NO_BLOCK then
    count, other = read_limits(record.block2, plan, count, boot, real)
    if not count then return nil, other end
    lane = lane .. " " .. other
  end
  if count ~= #plan.limits then return nil, "stale" end
  return plan, line_head(plan, record, id, started_at, bytes), plan.flags .. "\t" .. limits_text(plan, count, real) .. "\t" .. lane
end

-- Notes the starts of the windows of the block that was read, from `cell` on. Returns whether all are known.
local function note_starts(cell, ended_at)
  if cell >= block.cells then return true end
  local start = window_at(block.cell[cell], ended_at)
  if not start then return false end
  starts[cell] = start
  return note_starts(cell + 1, ended_at)
end

-- Adds the tokens of a response that ended at `ended_at` to one block in the worker's lane. Returns whether that
-- succeeded.
local function add(number, tokens, ended_at)
  return read_block(number) and note_starts(0, ended_at) and add_in_lane(number, starts, block.cells, tokens)
end

-- The number of the block with this name, given as two numbers, if the table has it.
local function find_block(first, second)
  local bytes = SLOTS * NAME_BYTES
  if C.pread(descriptor, named, bytes, names_at() + bit.band(first, 0x7fffffff) % head.buckets * bytes) ~= bytes then return nil end
  local found = nil
  for slot = SLOTS - 1, 0, -1 do
    local each = named[slot]
    if each.name[0] == first and each.name[1] == second and check_sum(each, NAME_BYTES) == each.check then found = each.block end
  end
  return found
end

-- Adds the tokens of a response to each of its blocks by name (src/table/rules/lane.ts): another request or process may
-- have added the block since the request began. Returns the tokens that were added, and where, for the line, or nil.
local function add_to_lane(names, tokens, ended_at)
  why_not(boot_ms(), now_ms(), 0)
  if descriptor < 0 then return nil end
  local blocks = ""
  for first, second in names:gmatch("(%x%x%x%x%x%x%x%x)(%x%x%x%x%x%x%x%x)") do
    local number = find_block(tonumber(first, 16), tonumber(second, 16))
    if number and add(number, tokens, ended_at) then blocks = format("%s %d", blocks, number) end
  end
  return blocks ~= "" and format("%.0f %.0f%s", head.file, tokens, blocks) or nil
end

-- Nil if Check decides everything.
decide_by_table = TABLE ~= "" and decide
-- Never fails.
function add_by_table(names, tokens, ended_at)
  local fine, added = pcall(add_to_lane, names, tokens, ended_at)
  return fine and added or nil
end
