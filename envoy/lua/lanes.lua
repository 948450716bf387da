-- What responses have used since the service counted last: each worker adds it to a lane of its own in a file, before the last
-- bytes of a response go on, so that the next decision knows it. Only aligned numbers of eight bytes are read, which are
-- never torn. The service makes the file and never writes its lanes (src/table/rules/format.ts).
--
-- A lane belongs to the worker that holds a lock on one byte of the file. The kernel gives it back when a worker ends. The last
-- lane is for all that have found no other: each locks it while it adds. What they left out the decisions of others would not know.
local ffi = require("ffi")

-- Where the file is. The service fills it in.
local LANES = ""

ffi.cdef([[
  int open(const char*, int, ...);
  int close(int);
  long pread(int, void*, size_t, long);
  long pwrite(int, const void*, size_t, long);
  int fcntl(int, int, ...);
  typedef struct { short type, whence; long start, length; int pid; } lanes_lock;
  typedef struct { uint64_t magic; uint32_t form, lanes; double file; int32_t check; } lanes_head;
  typedef struct { double start, added; } lanes_cell;
]])
local C = ffi.C

-- O_RDWR, O_NONBLOCK, O_CLOEXEC.
local OPTIONS = 2 + 2048 + 524288
local SET_LOCK, WRITE_LOCK, NO_LOCK, LOCKS_AT = 37, 1, 2, 2048
-- How often it is tried to get the last lane, which is locked for a microsecond: one that ends or hangs meanwhile must not stop others.
local MOST_TRIES = 200
-- "TGLANES1", with the low byte first.
local MAGIC, FORM = 0x3153454e414c4754ULL, 2
local HEAD_BYTES, LANES_AT, CELLS, CELL_BYTES = 28, 4096, 6, 16
local LANE_BYTES = CELLS * CELL_BYTES
local MOST_LANES = 256

local head, lock = ffi.new("lanes_head"), ffi.new("lanes_lock[1]")
local cells, own = ffi.new("lanes_cell[?]", MOST_LANES * CELLS), ffi.new("lanes_cell[?]", CELLS)
-- Opened for the first request: each thread has this script, also the main one, which gets none.
local descriptor, lanes, mine, is_shared = -1, 0, -1, false

-- The sum of the words of a part before its last one, which has it: a part of which half is new has another.
local WORDS = ffi.typeof("const int32_t*")
function check_sum(part, bytes)
  local words, sum = ffi.cast(WORDS, part), 0
  for i = 0, bytes / 4 - 2 do sum = bit.tobit(bit.rol(sum, 5) + words[i]) end
  return sum
end

function close_lanes()
  if descriptor >= 0 then C.close(descriptor) end
  descriptor, mine = -1, -1
end

-- Whether the lock of a lane is set.
local function set_lock(lane, kind)
  local own_byte = lock[0]
  own_byte.type, own_byte.whence, own_byte.start, own_byte.length, own_byte.pid = kind, 0, LOCKS_AT + lane, 1, 0
  return C.fcntl(descriptor, SET_LOCK, lock) == 0
end

-- Opens the lanes of the table with this number, and takes a free one, or the last. Returns whether they are that table's.
function open_lanes(file, count)
  close_lanes()
  descriptor = C.open(LANES, OPTIONS)
  if descriptor < 0 then return false end
  local is_whole = C.pread(descriptor, head, HEAD_BYTES, 0) == HEAD_BYTES and check_sum(head, HEAD_BYTES) == head.check
  if not is_whole or head.magic ~= MAGIC or head.form ~= FORM or head.file ~= file or head.lanes ~= count then return false end
  lanes = head.lanes
  if lanes < 1 or lanes > MOST_LANES then return false end
  mine = 0
  while mine < lanes - 1 and not set_lock(mine, WRITE_LOCK) do mine = mine + 1 end
  is_shared = mine == lanes - 1
  return true
end

-- Reads what all lanes have for a block. Returns whether that is known.
function read_lanes(block)
  local bytes = lanes * LANE_BYTES
  return C.pread(descriptor, cells, bytes, LANES_AT + block * bytes) == bytes
end

-- The sum of what was read, of one cell in the window that begins at `start`; nil: a lane has a later one already, because a
-- clock was set back, and nobody knows any more what it had in this one.
function added_in(cell, start)
  local sum = 0
  for at = cell, lanes * CELLS - 1, CELLS do
    if cells[at].start > start then return nil end
    if cells[at].start == start then sum = sum + cells[at].added end
  end
  return sum
end

-- Adds tokens to the cells of the lane that was read, from `cell` on, and returns whether all take them.
local function add_to_cells(cell, starts, count, tokens)
  if cell >= count then return true end
  local each, start = own[cell], starts[cell]
  if each.start > start then return false end
  if each.start < start then each.start, each.added = start, 0 end
  each.added = each.added + tokens
  return add_to_cells(cell + 1, starts, count, tokens)
end

local function add(block, starts, count, tokens)
  local at = LANES_AT + (block * lanes + mine) * LANE_BYTES
  return C.pread(descriptor, own, LANE_BYTES, at) == LANE_BYTES
    and add_to_cells(0, starts, count, tokens)
    and C.pwrite(descriptor, own, LANE_BYTES, at) == LANE_BYTES
end

-- Adds tokens to a block in the own lane: `starts` has the windows of its cells. Returns whether all of them have it.
function add_in_lane(block, starts, count, tokens)
  if mine < 0 then return false end
  if not is_shared then return add(block, starts, count, tokens) end
  for _ = 1, MOST_TRIES do
    if set_lock(mine, WRITE_LOCK) then
      local is_added = add(block, starts, count, tokens)
      set_lock(mine, NO_LOCK)
      return is_added
    end
  end
  return false
end
