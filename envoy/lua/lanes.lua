-- Adds the tokens of responses since the service last counted: each worker adds to its own lane in a file before it
-- forwards the last bytes of a response, so that the next decision includes them. Only aligned numbers of eight bytes
-- are read, which are never torn. The service creates the file and never writes its lanes (src/table/rules/format.ts).
--
-- A lane belongs to the worker that holds the lock on one byte of the file, which the kernel releases when a worker
-- ends. The last lane is for all workers without one of their own: each locks it while adding. Without it, their usage
-- would be missing from the decisions of others.
local ffi = require("ffi")

-- The path of the file. The service fills it in.
local LANES = ""

ffi.cdef([[
  typedef struct { short type, whence; long start, length; int pid; } lanes_lock;
  typedef struct { uint64_t magic; uint32_t form, lanes; double file; int32_t check; } lanes_head;
  typedef struct { double start, added; } lanes_cell;
]])
local C = ffi.C

-- O_RDWR, O_NONBLOCK, O_CLOEXEC.
local OPTIONS = 2 + 2048 + 524288
local SET_LOCK, WRITE_LOCK, NO_LOCK, LOCKS_AT = 37, 1, 2, 2048
-- Attempts to lock the last lane, which is held for a microsecond: a worker that ends or hangs while it holds the lock
-- must not block the others.
local MOST_TRIES = 200
-- "TGLANES1", little-endian.
local MAGIC, FORM = 0x3153454e414c4754ULL, 2
local HEAD_BYTES, LANES_AT, CELLS, CELL_BYTES = 28, 4096, 6, 16
local LANE_BYTES = CELLS * CELL_BYTES
local MOST_LANES = 256

local head, lock = ffi.new("lanes_head"), ffi.new("lanes_lock[1]")
local cells, own = ffi.new("lanes_cell[?]", MOST_LANES * CELLS), ffi.new("lanes_cell[?]", CELLS)
-- Opened for the first request: each thread has this script, even the main thread, which gets no requests.
local descriptor, lanes, mine, is_shared = -1, 0, -1, false

-- The checksum: the sum of the words of a part before its last word, which stores it. It does not match in a
-- half-written part.
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

-- Sets or releases the lock of a lane without waiting. Returns whether that succeeded.
local function set_lock(lane, kind)
  local own_byte = lock[0]
  own_byte.type, own_byte.whence, own_byte.start, own_byte.length, own_byte.pid = kind, 0, LOCKS_AT + lane, 1, 0
  return C.fcntl(descriptor, SET_LOCK, lock) == 0
end

-- Opens the lanes of the table with this number, and takes a free one, else the last. Returns whether the file belongs
-- to that table.
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

-- Reads the lanes of a block. Returns whether that succeeded.
function read_lanes(block)
  local bytes = lanes * LANE_BYTES
  return C.pread(descriptor, cells, bytes, LANES_AT + block * bytes) == bytes
end

-- The sum of one cell over all lanes that were read, in the window that begins at `start`; nil if a clock was set back,
-- so that a lane already has a later window and its sum for this one is lost.
function added_in(cell, start)
  local sum = 0
  for at = cell, lanes * CELLS - 1, CELLS do
    if cells[at].start > start then return nil end
    if cells[at].start == start then sum = sum + cells[at].added end
  end
  return sum
end

-- Adds tokens to the cells of the lane that was read, from `cell` on. Returns whether all of them accept it.
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

-- Adds tokens to a block in the worker's lane; `starts` are the windows of its cells. Returns whether all cells have
-- them.
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
