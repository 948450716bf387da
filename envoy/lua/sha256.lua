-- SHA-256 (FIPS 180-4) of short texts: the digests by which the table finds requests. The texts are joined in one
-- buffer, since a key must not become a string that Lua interns.
local ffi = require("ffi")
local band, bswap, bxor, rol, ror, rshift, tobit = bit.band, bit.bswap, bit.bxor, bit.rol, bit.ror, bit.rshift, bit.tobit

-- The longest text, in bytes.
SHA256_MOST = 1280

local buffer = ffi.new("uint8_t[?]", SHA256_MOST + 72)
local words = ffi.cast("int32_t*", buffer)
local FACTORS, BEGIN, W = ffi.new("int32_t[64]"), ffi.new("int32_t[8]"), ffi.new("int32_t[64]")
local sum = ffi.new("int32_t[8]")

-- The first 32 bits of the fractions of the cube roots of 64 primes, and of the square roots of eight.
do
  local function fraction(number)
    return tobit(math.floor((number - math.floor(number)) * 4294967296))
  end
  local count, candidate = 0, 2
  while count < 64 do
    local is_prime = true
    for divisor = 2, math.sqrt(candidate) do is_prime = is_prime and candidate % divisor ~= 0 end
    if is_prime then
      FACTORS[count] = fraction(candidate ^ (1 / 3))
      if count < 8 then BEGIN[count] = fraction(candidate ^ 0.5) end
      count = count + 1
    end
    candidate = candidate + 1
  end
end

local function add_block(first)
  for i = 0, 15 do W[i] = bswap(words[first + i]) end
  for i = 16, 63 do
    local x, y = W[i - 15], W[i - 2]
    local low, high = bxor(ror(x, 7), ror(x, 18), rshift(x, 3)), bxor(ror(y, 17), ror(y, 19), rshift(y, 10))
    W[i] = tobit(W[i - 16] + low + W[i - 7] + high)
  end
  local a, b, c, d, e, f, g, h = sum[0], sum[1], sum[2], sum[3], sum[4], sum[5], sum[6], sum[7]
  for i = 0, 63 do
    local one = tobit(h + bxor(ror(e, 6), ror(e, 11), ror(e, 25)) + bxor(g, band(e, bxor(f, g))) + FACTORS[i] + W[i])
    local two = tobit(bxor(ror(a, 2), ror(a, 13), ror(a, 22)) + bxor(band(a, b), band(c, bxor(a, b))))
    h, g, f, e, d, c, b, a = g, f, e, tobit(d + one), c, b, a, tobit(one + two)
  end
  sum[0], sum[1], sum[2], sum[3] = tobit(sum[0] + a), tobit(sum[1] + b), tobit(sum[2] + c), tobit(sum[3] + d)
  sum[4], sum[5], sum[6], sum[7] = tobit(sum[4] + e), tobit(sum[5] + f), tobit(sum[6] + g), tobit(sum[7] + h)
end

-- The digest of three texts joined with NULs: eight words in the order of their bytes, valid until the next call. nil
-- if the texts are too long.
function sha256_of(one, two, three)
  local first, second = #one, #two
  local length = first + second + #three + 2
  if length > SHA256_MOST then return nil end
  ffi.copy(buffer, one, first)
  buffer[first] = 0
  ffi.copy(buffer + first + 1, two, second)
  buffer[first + second + 1] = 0
  ffi.copy(buffer + first + second + 2, three, #three)
  buffer[length] = 0x80
  local blocks = rshift(length + 72, 6)
  ffi.fill(buffer + length + 1, blocks * 64 - length - 1)
  words[blocks * 16 - 1] = bswap(length * 8)
  ffi.copy(sum, BEGIN, 32)
  for block = 0, blocks - 1 do add_block(block * 16) end
  for i = 0, 7 do sum[i] = bswap(sum[i]) end
  -- No key stays in memory here.
  ffi.fill(buffer, blocks * 64)
  ffi.fill(W, 256)
  return sum
end

-- Show the compiler typical requests first: three or four blocks.
for length = 100, 200 do sha256_of(("x"):rep(length), "", "") end
