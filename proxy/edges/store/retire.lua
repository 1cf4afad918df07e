-- Settled actions leave: the record, what is kept beside it, its claims and its places in lists. Scope and aliases get a
-- tombstone each, for as long as scopes are kept.
--
-- KEYS    1 actions  2 claims  3 due  4 index  5 kept  6 settled  7 meta  8… graves
-- ARGV    1 keep_ms  2 keep_scopes_ms  3 a msgpack list of what leaves (see codec.py)
-- Returns the IDs of those that left
--
-- A tombstone is 21 bytes: 16 of the SHA-1 of a claim's name, a byte for the outcome, 4 for the second when it is over.
-- Those of one stretch of time share a grave: a hash whose fields are the first hexadecimal digits of that digest and
-- whose values are the stones one after the other. A grave is dropped as a whole when its last stone is over; the graves
-- are a ring, each open for a quarter of `keep_scopes`. In `meta`: `graves` has a digit for each, how many digits its
-- fields have (0: empty); `grave` is the open one; `grave1`… "opened last count", in seconds.

local actions, claims, due, index = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local kept, settled, meta = KEYS[5], KEYS[6], KEYS[7]
local graves = {KEYS[8], KEYS[9], KEYS[10], KEYS[11], KEYS[12], KEYS[13]}
local NAMES = {"credential", "request", "response"} -- What may be kept beside a record.
local NEIGHBOURS = 16 -- Messages are twins only where they were under way together, and IDs are ordered by time.
local DEPTH_LEAST, DEPTH_MOST, STONES_A_ROW = 4, 7, 64
local time = redis.call("TIME")
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local seconds = math.floor(now / 1000)
local keep, keep_scopes = tonumber(ARGV[1]), tonumber(ARGV[2])

local function whole(number) return string.format("%.0f", number) end

local function head_of(id)
  local raw = redis.call("HGET", actions, id)
  if not raw then return nil end
  return cmsgpack.unpack(string.sub(raw, 5, 4 + struct.unpack(">I4", raw)))
end

-- ── Graves ───────────────────────────────────────────────────────────────────────────────────────────────────────────
local depths = redis.call("HGET", meta, "graves") or string.rep("0", #graves)
local slot = tonumber(redis.call("HGET", meta, "grave") or #graves)
local opened, last, count

local function depth_of(number) return tonumber(string.sub(depths, number, number)) end

local function read_grave()
  local a, b, c = string.match(redis.call("HGET", meta, "grave" .. slot) or "0 0 0", "^(%d+) (%d+) (%d+)$")
  opened, last, count = tonumber(a), tonumber(b), tonumber(c)
end

-- Open the next grave where the open one has had its time; where none is free, it takes more.
local function open_grave()
  read_grave()
  if depth_of(slot) > 0 and seconds < opened + keep_scopes / 4000 then return end
  local free = nil
  for step = 1, #graves do
    local candidate = (slot + step - 1) % #graves + 1
    if not free and depth_of(candidate) == 0 then free = candidate end
  end
  if not free then return end
  local depth = DEPTH_LEAST
  while depth < DEPTH_MOST and count > 16 ^ depth * STONES_A_ROW do depth = depth + 1 end
  slot, opened, last, count = free, seconds, 0, 0
  depths = string.sub(depths, 1, slot - 1) .. depth .. string.sub(depths, slot + 1)
end

local function bury(name, outcome, till)
  local digest = string.sub(redis.sha1hex(name), 1, 32)
  local packed = string.gsub(digest, "%x%x", function(pair) return string.char(tonumber(pair, 16)) end)
  local field = string.sub(digest, 1, depth_of(slot))
  local row = redis.call("HGET", graves[slot], field) or ""
  redis.call("HSET", graves[slot], field, row .. packed .. struct.pack(">c1I4", outcome, till))
  last, count = math.max(last, till), count + 1
end

-- ── Leaving ──────────────────────────────────────────────────────────────────────────────────────────────────────────
-- Did an unresolved action send the same message at about the same time? Its read-back must know that it has a twin.
local function has_open_twin(leaving)
  for _, name in ipairs(leaving.index) do
    if string.sub(name, 1, 8) == "content:" then
      local own, first, beyond = name .. ":" .. leaving.id, name .. ":", name .. ":\127"
      local near = redis.call("ZREVRANGEBYLEX", index, "(" .. own, "[" .. first, "LIMIT", 0, NEIGHBOURS)
      local after = redis.call("ZRANGEBYLEX", index, "(" .. own, "(" .. beyond, "LIMIT", 0, NEIGHBOURS)
      for _, member in ipairs(after) do near[#near + 1] = member end
      for _, member in ipairs(near) do
        local head = head_of(string.sub(member, #first + 1))
        if head and (head.u or head.o ~= "") then return true end
      end
    end
  end
  return false
end

local function unclaim(field, id)
  local text, left = redis.call("HGET", claims, field), {}
  if not text then return end
  for entry in string.gmatch(text, "[^,]+") do
    if entry ~= id and string.sub(entry, 1, #id + 1) ~= id .. "@" then left[#left + 1] = entry end
  end
  if #left == 0 then
    redis.call("HDEL", claims, field)
  else
    redis.call("HSET", claims, field, table.concat(left, ","))
  end
end

local function leave(leaving, till)
  local id, named = leaving.id, {"s" .. leaving.scope}
  for _, alias in ipairs(leaving.aliases) do named[#named + 1] = "a" .. alias end
  for _, name in ipairs(named) do
    if redis.call("HGET", claims, name) == id then -- A scope that has a later run is that one's.
      redis.call("HDEL", claims, name)
      bury(name, leaving.outcome, till)
    end
  end
  for _, field in ipairs(leaving.claims) do unclaim(field, id) end
  for _, name in ipairs(leaving.index) do
    if string.sub(name, 1, 4) == "key:" then unclaim(name, id) else redis.call("ZREM", index, name .. ":" .. id) end
  end
  for _, name in ipairs(NAMES) do redis.call("HDEL", kept, id .. ":" .. name) end
  redis.call("ZREM", due, id)
  redis.call("ZREM", settled, id)
  redis.call("HDEL", actions, id)
end

local gone = {}
open_grave()
for _, leaving in ipairs(cmsgpack.unpack(ARGV[3])) do
  local head, since = head_of(leaving.id), redis.call("ZSCORE", settled, leaving.id)
  if head and since and head.v == leaving.version and tonumber(since) <= now - keep then
    if head.u or head.o ~= "" then
      redis.call("ZREM", settled, leaving.id) -- It was never to be there: what is open stays.
    elseif has_open_twin(leaving) then
      redis.call("ZADD", settled, whole(now), leaving.id)
    else
      leave(leaving, math.floor((tonumber(since) + keep_scopes) / 1000) + 1)
      gone[#gone + 1] = leaving.id
    end
  end
end
if count > 0 then
  redis.call("HSET", meta, "graves", depths, "grave", slot, "grave" .. slot, string.format("%.0f %.0f %.0f", opened, last, count))
end
return gone
