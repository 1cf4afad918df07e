-- Take what is due: each action once, for a lease. One that is awaited is due only when its owner's own lease has ended,
-- or where even a living owner must have lost track of it.
--
-- KEYS    1 actions  2 due  3 instances        ARGV  1 lease_ms  2 most
-- Returns {now_ms, record, record, …}

local SCANNED_MORE = 1000 -- The awaited actions of the living must not stand before what is due; nor may the scan be long.
local WRITTEN_OFF_WITHIN = 3000 -- Of what a dead owner awaited: whoever claims it may die too, or not hear that it has it.
local time = redis.call("TIME")
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local most = tonumber(ARGV[2])
local out = {string.format("%.0f", now)}
for _, id in ipairs(redis.call("ZRANGEBYSCORE", KEYS[2], "-inf", now, "LIMIT", 0, most + SCANNED_MORE)) do
  if #out > most then break end
  local raw = redis.call("HGET", KEYS[1], id)
  if not raw then
    redis.call("ZREM", KEYS[2], id)
  else
    local head = cmsgpack.unpack(string.sub(raw, 5, 4 + struct.unpack(">I4", raw)))
    local lease = head.o ~= "" and tonumber(redis.call("HGET", KEYS[3], head.o) or "0") or 0
    if lease > now and head.w > now then
      redis.call("ZADD", KEYS[2], string.format("%.0f", lease + 1), id)
    else
      local held = head.o ~= "" and math.min(tonumber(ARGV[1]), WRITTEN_OFF_WITHIN) or tonumber(ARGV[1])
      redis.call("ZADD", KEYS[2], string.format("%.0f", now + held), id)
      out[#out + 1] = raw
    end
  end
end
return out
