-- Writes the line of a response to the folder shared with the service before it forwards the last bytes of the
-- response, so that the client's next request finds it counted. Each line is one write that begins and ends with a
-- newline, so that a torn line never damages the next. If the write fails, the space that the service holds back for a
-- full file system is freed (src/journal/ballast.ts), and the line is written again. If that fails too, the response
-- continues, and Envoy's own log writes the line.
--
-- The service creates the folder and its files, and renames them, which it notes in the head file
-- (src/journal/head-file.ts). That is read with pread before each write: a mapped file that is truncated would crash
-- Envoy.

-- The paths of the files. The service fills them in; if they are empty, no line is written.
local LINES, HEAD = "", ""
local BALLAST = ""
-- The longest line, with its newlines.
local LONGEST_LINE = 16384
-- The files are also reopened after this time (ms), in case others have replaced them.
local OPEN_FOR = 1000
-- O_APPEND, O_NONBLOCK (never wait for the reader of a pipe), O_CLOEXEC. Never O_CREAT: the service might not be able
-- to read a file that Envoy's user creates.
local APPEND, OPTIONS = 1024, 2048 + 524288
local WRITE_ONLY, READ_AND_WRITE, REALTIME = 1, 2, 0
-- "TTOL1" in two words, the second of one byte; then the format, the number of renames, and the number of failures.
local MAGIC, MAGIC_END, FORM = 0x4c4f5454, 0x31, 1
local HEAD_BYTES, FAILED_AT = 20, 16

local ffi = require("ffi")
local C = ffi.C
local head, failed, time = ffi.new("uint32_t[5]"), ffi.new("uint32_t[1]"), ffi.new("long[2]")
-- Opened for the first line: each thread has this script, even the main thread, which writes none.
local lines, heads, opened_at, renamed = -1, -1, 0, -1

-- Milliseconds since the epoch.
function now_ms()
  C.clock_gettime(REALTIME, time)
  return tonumber(time[0]) * 1000 + math.floor(tonumber(time[1]) / 1000000)
end

-- The number of renames, or -1 if it cannot be read.
local function renamings()
  if heads < 0 or C.pread(heads, head, HEAD_BYTES, 0) ~= HEAD_BYTES then return -1 end
  if head[0] ~= MAGIC or head[1] ~= MAGIC_END or head[2] ~= FORM then return -1 end
  return head[3]
end

local function close()
  if lines >= 0 then C.close(lines) end
  if heads >= 0 then C.close(heads) end
  lines, heads = -1, -1
end

local function open(now)
  close()
  -- The number before the file: the next line notices a rename in between.
  heads = C.open(HEAD, READ_AND_WRITE + OPTIONS)
  renamed, opened_at = renamings(), now
  lines = C.open(LINES, WRITE_ONLY + APPEND + OPTIONS)
end

-- Counts in the head file a line that was not written.
local function note_failure()
  if renamings() >= 0 then
    failed[0] = head[4] + 1
    C.pwrite(heads, failed, 4, FAILED_AT)
  end
  close()
end

-- A line that lacks only its last byte is complete: the next one begins with a newline.
local function is_appended(text)
  return lines >= 0 and C.write(lines, text, #text) >= #text - 1
end

local function write(text, now)
  if #text > LONGEST_LINE then return false end
  if lines < 0 or now < opened_at or now - opened_at >= OPEN_FOR or renamings() ~= renamed then open(now) end
  if is_appended(text) then return true end
  -- The service frees it only within a second, and then Envoy's own log would lose the line, too. If the file is missing
  -- or not for Envoy to write, that is of no use, and the service would write the ballast again every second.
  if lines >= 0 and BALLAST ~= "" then C.unlink(BALLAST) end
  local is_written = is_appended(text)
  note_failure()
  return is_written
end

-- Appends the line, which begins and ends with a newline, and returns whether it is in the file. Never fails. `now`
-- comes from `now_ms`. This is nil if no lines are written.
append_line = LINES ~= "" and function(line, now)
  local fine, is_written = pcall(write, line, now)
  return fine and is_written
end
