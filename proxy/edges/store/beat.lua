-- Renew the lease of an instance, or end it (lease_ms 0), and tell the time. Whoever is new clears away leases that ended
-- long ago: each start of a process has a name of its own.
--
-- Only what is pending can be awaited, and few are at any time: neither `due`, where the unknown wait, nor `actions` is
-- gone through.
--
-- KEYS    1 instances  2 due  3 actions  4 index        ARGV  1 instance  2 lease_ms
-- Returns now_ms

local time = redis.call("TIME")
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local lease = tonumber(ARGV[2])
local ENDED_LONG_AGO, LOOKED_AT = 86400000, 1000
if lease > 0 then
  if redis.call("HSET", KEYS[1], ARGV[1], string.format("%.0f", now + lease)) == 1 then
    local some = redis.call("HSCAN", KEYS[1], 0, "COUNT", LOOKED_AT)[2]
    for i = 1, #some, 2 do
      if tonumber(some[i + 1]) < now - ENDED_LONG_AGO then redis.call("HDEL", KEYS[1], some[i]) end
    end
  end
else
  redis.call("HDEL", KEYS[1], ARGV[1])
  local list = "status:pending:"
  for _, member in ipairs(redis.call("ZRANGEBYLEX", KEYS[4], "[" .. list, "(" .. list .. "\127")) do
    local id = string.sub(member, #list + 1)
    local raw = redis.call("ZSCORE", KEYS[2], id) and redis.call("HGET", KEYS[3], id)
    if raw then
      local head = cmsgpack.unpack(string.sub(raw, 5, 4 + struct.unpack(">I4", raw)))
      if head.o == ARGV[1] then redis.call("ZADD", KEYS[2], string.format("%.0f", now), id) end
    end
  end
end
return string.format("%.0f", now)
