-- The functions of the system that the parts after it call, as `ffi.C`: declared once, for all of the filter's script.
local ffi = require("ffi")

ffi.cdef([[
  int open(const char*, int, ...);
  int close(int);
  long pread(int, void*, size_t, long);
  long write(int, const void*, size_t);
  long pwrite(int, const void*, size_t, long);
  int fcntl(int, int, ...);
  int unlink(const char*);
  int clock_gettime(int, void*);
]])
