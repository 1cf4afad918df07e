-- What may retire: settled actions that nothing has changed for long enough, the oldest first; for one instance at a time.
-- And a little housekeeping: graves that are over, and what limits used in periods that ended long ago.
--
-- KEYS    1 settled  2 actions  3 limits  4 meta  5… graves
-- ARGV    1 instance  2 lease_ms  3 keep_ms  4 most  5 day and 6 month before which periods are over
-- Returns {now_ms, record, record, …}

local settled, actions, limits, meta = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local graves = {KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10]}
local SCANNED = 100 -- Fields of `limits` that one call looks at.
local time = redis.call("TIME")
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)

local function whole(number) return string.format("%.0f", number) end

local out = {whole(now)}
local holder, till = string.match(redis.call("HGET", meta, "retirer") or "", "^(.*)@(%d+)$")
if holder and holder ~= ARGV[1] and tonumber(till) > now then return out end
redis.call("HSET", meta, "retirer", ARGV[1] .. "@" .. whole(now + tonumber(ARGV[2])))

local depths = redis.call("HGET", meta, "graves") or ""
for slot = 1, #depths do
  local last = tonumber(string.match(redis.call("HGET", meta, "grave" .. slot) or "", "^%d+ (%d+)"))
  if last and last * 1000 <= now then
    redis.call("UNLINK", graves[slot])
    redis.call("HDEL", meta, "grave" .. slot)
    depths = string.sub(depths, 1, slot - 1) .. "0" .. string.sub(depths, slot + 1)
    redis.call("HSET", meta, "graves", depths)
  end
end

local seen = redis.call("HGET", meta, "limits_seen") or "0"
local scan = redis.call("HSCAN", limits, seen, "COUNT", SCANNED)
if scan[1] ~= seen then redis.call("HSET", meta, "limits_seen", scan[1]) end
for i = 1, #scan[2], 2 do
  local label = string.match(scan[2][i], "^c|.*|([^|]*)$")
  if label and ((#label == 10 and label < ARGV[5]) or (#label == 7 and label < ARGV[6])) then
    redis.call("HDEL", limits, scan[2][i])
  end
end

local before = whole(now - tonumber(ARGV[3]))
for _, id in ipairs(redis.call("ZRANGEBYSCORE", settled, "-inf", before, "LIMIT", 0, ARGV[4])) do
  local raw = redis.call("HGET", actions, id)
  if raw then
    out[#out + 1] = raw
  else
    redis.call("ZREM", settled, id)
  end
end
return out
