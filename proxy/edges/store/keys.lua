-- Take note of the state key that an instance seals with, unless the ledger was written with others alone.
--
-- KEYS    1 meta        ARGV  the fingerprints of its keys, the newest first
-- Returns {now_ms, fingerprint, last_ms, fingerprint, last_ms, …}: those that the ledger knew before

local time = redis.call("TIME")
local now = string.format("%.0f", tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000))
local out, ours = {now}, {}
for _, fingerprint in ipairs(ARGV) do ours[fingerprint] = true end
local welcome, meta = true, redis.call("HGETALL", KEYS[1])
for i = 1, #meta, 2 do
  if string.sub(meta[i], 1, 4) == "key:" then
    if #out == 1 then welcome = false end
    local fingerprint = string.sub(meta[i], 5)
    if ours[fingerprint] then welcome = true end
    out[#out + 1] = fingerprint
    out[#out + 1] = meta[i + 1]
  end
end
if welcome then redis.call("HSET", KEYS[1], "key:" .. ARGV[1], now) end
return out
