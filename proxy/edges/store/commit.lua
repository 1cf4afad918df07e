-- The one write. All or nothing, idempotent by commit ID, on the server's clock.
--
-- KEYS    1 actions  2 claims  3 due  4 index  5 kept  6 exposure  7 limits  8 meta
--         9 settled  10… graves  16 instances     all of one hash tag
-- ARGV[1] a msgpack map, the slip (see codec.py);  ARGV[2] the record;  ARGV[3…] the values to keep, named in the slip
--         (cmsgpack does not read msgpack's binary type, so bytes travel beside the map)
--
-- A record in `actions` is a 4-byte length, a msgpack head, and the bytes of ARGV[2], which nothing here reads.
--   head  v version · o owner while awaited, w until when at most · u unresolved · c the last commits · h what it holds of each limit
-- A claim is `s`cope or `a`lias + digest -> ID; `p`ayload or `t`arget + digest -> ID@until,ID@until; beside them `key:` +
-- digest -> ID,ID: few actions have one key, and a place in a sorted set of millions takes longer to find
--   until 1: while it is awaited, for those who ask at another instance; they are told "elsewhere" until the owner's lease
--   ends no sooner than `alive`: then it lives, and so does the asker that it says it has
--
-- Returns {"committed", version, sequence, then_ms, stale, now_ms} | {"conflict", via, record, now_ms}
--       | {"exhausted", limit, available, now_ms} | {"retired", via, outcome, now_ms} | {"missing"};  a repeated commit is told its own `then_ms`
--
-- A script that fails half-way has written that half: what could fail (a malformed number) must not reach "Apply".

local slip, record = cmsgpack.unpack(ARGV[1]), ARGV[2]
local actions, claims, due, index = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local kept, exposure, limits, meta = KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local settled, instances = KEYS[9], KEYS[16]
local graves = {KEYS[10], KEYS[11], KEYS[12], KEYS[13], KEYS[14], KEYS[15]}
local time = redis.call("TIME")
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local COMMITS_REMEMBERED = 8
local EXPIRED_MOST = 4 -- Claims that are over, looked at by each write that adds one.
local STONE = 21 -- Bytes of a tombstone (see retire.lua).
local WAITED_FOR = 1

local function whole(number) return string.format("%.0f", number) end

local function head_of(id)
  local raw = redis.call("HGET", actions, id)
  if not raw then return nil end
  local size = struct.unpack(">I4", raw)
  return cmsgpack.unpack(string.sub(raw, 5, 4 + size)), raw
end

local function conflict(via, raw) return {"conflict", via, raw, whole(now)} end

-- Entries "ID@until" of a payload or target claim, as a list; those of `except` left out.
local function entries(field, except)
  local out, text = {}, redis.call("HGET", claims, field)
  for id, till in string.gmatch(text or "", "([^@,]+)@(%d+)") do
    if id ~= except then out[#out + 1] = {id, tonumber(till)} end
  end
  return out
end

local function write_entries(field, list)
  if #list == 0 then redis.call("HDEL", claims, field); return end
  local parts = {}
  for i, entry in ipairs(list) do parts[i] = entry[1] .. "@" .. whole(entry[2]) end
  redis.call("HSET", claims, field, table.concat(parts, ","))
end

-- The same, without the first of those that are over and whose actions are settled or gone: nobody may look them up.
local function fresh_entries(field, except)
  local out, looked = {}, 0
  for _, entry in ipairs(entries(field, except)) do
    local stays = entry[2] > now or looked == EXPIRED_MOST
    if not stays then
      looked = looked + 1
      local first = head_of(entry[1])
      stays = first and (first.u or (entry[2] == WAITED_FOR and first.o ~= ""))
    end
    if stays then out[#out + 1] = entry end
  end
  return out
end

-- What became of a retired action of this name: the outcome that its tombstone tells, or nil.
local function buried(name)
  local depths = redis.call("HGET", meta, "graves")
  if not depths then return nil end
  local digest, wanted = string.sub(redis.sha1hex(name), 1, 32), nil
  for slot = 1, #depths do
    local depth = tonumber(string.sub(depths, slot, slot))
    local row = depth > 0 and redis.call("HGET", graves[slot], string.sub(digest, 1, depth))
    if row then
      wanted = wanted or string.gsub(digest, "%x%x", function(pair) return string.char(tonumber(pair, 16)) end)
      local at = string.find(row, wanted, 1, true)
      while at do
        if at % STONE == 1 then
          local outcome, till = struct.unpack(">c1I4", row, at + 16)
          if till * 1000 > now then return outcome end
        end
        at = string.find(row, wanted, at + 1, true)
      end
    end
  end
  return nil
end

-- The period's label at `now`: days and months of UTC, by the civil calendar.
local function label_of(period)
  if period == "total" then return "total" end
  local days = math.floor(now / 86400000)
  local z = days + 719468
  local era = math.floor(z / 146097)
  local doe = z - era * 146097
  local yoe = math.floor((doe - math.floor(doe / 1460) + math.floor(doe / 36524) - math.floor(doe / 146096)) / 365)
  local doy = doe - (365 * yoe + math.floor(yoe / 4) - math.floor(yoe / 100))
  local mp = math.floor((5 * doy + 2) / 153)
  local month = mp < 10 and mp + 3 or mp - 9
  local year = yoe + era * 400 + (month <= 2 and 1 or 0)
  if period == "month" then return string.format("%04d-%02d", year, month) end
  return string.format("%04d-%02d-%02d", year, month, doy - math.floor((153 * mp + 2) / 5) + 1)
end

local function bucket_field(hold, bucket)
  if bucket == "consumed" then return "c|" .. hold.n .. "|" .. hold.l end
  if bucket == "reserved" then return "r|" .. hold.n end
  if bucket == "unknown" then return "u|" .. hold.n end
  return nil
end

local function add(hold, bucket, amount)
  local field = bucket_field(hold, bucket)
  if field and tonumber(amount) ~= 0 then redis.call("HINCRBY", limits, field, amount) end -- It does not take "-0".
end

local function used(field) return tonumber(redis.call("HGET", limits, field) or "0") end

-- ── Has this commit been applied before? ─────────────────────────────────────────────────────────────────────────────
local head, raw = head_of(slip.id)
if head then
  for _, done in ipairs(head.c) do
    if done[1] == slip.commit then return {"committed", done[2], done[3], done[4], done[5], whole(now)} end
  end
end

-- ── May it be applied? Nothing is written before every question is answered. ────────────────────────────────────────
local stale, prune = "", {}
if slip.expected == 0 then
  if head then return conflict("version", raw) end
  if slip.scope ~= "" then
    local latest = redis.call("HGET", claims, "s" .. slip.scope)
    if latest and (latest ~= slip.replaces) then
      local _, latest_raw = head_of(latest)
      if latest_raw then return conflict("scope", latest_raw) end
    elseif slip.replaces ~= "" then
      local first, first_raw = head_of(slip.replaces)
      if first and first.v ~= slip.replaces_version then return conflict("scope", first_raw) end
    end
    local outcome = not latest and buried("s" .. slip.scope)
    if outcome then return {"retired", "scope", outcome, whole(now)} end
  end
else
  if not head then return {"missing"} end
  if head.v ~= slip.expected then return conflict("version", raw) end
end
for _, lookup in ipairs(slip.lookups) do
  for _, digest in ipairs(lookup[2]) do
    if lookup[1] == "alias" then
      local id = redis.call("HGET", claims, "a" .. digest)
      local _, found = nil, nil
      if id then _, found = head_of(id) end
      if found then return conflict("alias", found) end
      local outcome = buried("a" .. digest)
      if outcome then return {"retired", "alias", outcome, whole(now)} end
    else
      local field, live, gone = string.sub(lookup[1], 1, 1) .. digest, {}, false
      for _, entry in ipairs(entries(field, "")) do
        local own = entry[1] == slip.id or entry[1] == slip.replaces -- Nothing stands in its own way.
        local first, found = head_of(entry[1])
        if first and entry[2] > now and not own then return conflict(lookup[1], found) end
        local waited = first and entry[2] == WAITED_FOR and first.o ~= ""
        if waited and not own and slip.owner ~= "" and first.o ~= slip.owner then
          local lease = tonumber(redis.call("HGET", instances, first.o) or "0")
          if slip.alive == 0 or lease < slip.alive then return conflict("elsewhere", found) end
        end
        if first and (first.u or waited or own) then
          live[#live + 1] = entry
          if lookup[1] == "payload" and not own then stale = entry[1] end
        else
          gone = true
        end
      end
      if gone then prune[#prune + 1] = {field, live} end
    end
  end
end

local held, holds = head and head.h or {}, {}
for _, want in ipairs(slip.reserve) do
  local hold = {n = want[1], l = label_of(want[2]), a = want[4], k = want[5], b = "reserved"}
  local taken = used("c|" .. hold.n .. "|" .. hold.l) + used("r|" .. hold.n) + used("u|" .. hold.n)
  for _, own in ipairs(held) do -- What it holds itself is given back before it is asked anew.
    if own.n == hold.n and (own.b == "reserved" or own.b == "unknown") then taken = taken - tonumber(own.a) end
  end
  local available = tonumber(want[3]) - taken
  if tonumber(want[4]) > available then
    return {"exhausted", hold.n, whole(math.max(available, 0)), whole(now)}
  end
  holds[#holds + 1] = hold
end

-- ── Apply. ───────────────────────────────────────────────────────────────────────────────────────────────────────────
local version = slip.expected + 1
local sequence = redis.call("HINCRBY", meta, "sequence", 1)
if slip.expected == 0 and slip.scope ~= "" then -- A change of an earlier run must not take the scope back.
  redis.call("HSET", claims, "s" .. slip.scope, slip.id)
end

for _, pruned in ipairs(prune) do write_entries(pruned[1], pruned[2]) end
for _, claim in ipairs(slip.claims) do
  local field = string.sub(claim[1], 1, 1) .. claim[2]
  if claim[1] == "alias" then
    local holder = redis.call("HGET", claims, field)
    if claim[3] == 0 then
      if holder == slip.id then redis.call("HDEL", claims, field) end
    elseif not holder or redis.call("HEXISTS", actions, holder) == 0 then
      redis.call("HSET", claims, field, slip.id)
    end
  else
    local list = claim[3] > 0 and fresh_entries(field, slip.id) or entries(field, slip.id)
    if claim[3] > 0 then list[#list + 1] = {slip.id, claim[3]} end
    write_entries(field, list)
  end
end

-- The IDs under a key, without or with this one at their end.
local function keyed(name, with)
  local ids = {}
  for id in string.gmatch(redis.call("HGET", claims, name) or "", "[^,]+") do
    if id ~= slip.id then ids[#ids + 1] = id end
  end
  if with then ids[#ids + 1] = slip.id end
  if #ids == 0 then
    redis.call("HDEL", claims, name)
  else
    redis.call("HSET", claims, name, table.concat(ids, ","))
  end
end

local function is_key(name) return string.sub(name, 1, 4) == "key:" end

for _, name in ipairs(slip.index_drop) do
  if is_key(name) then keyed(name, false) else redis.call("ZREM", index, name .. ":" .. slip.id) end
end
for _, name in ipairs(slip.index_add) do
  if is_key(name) then keyed(name, true) else redis.call("ZADD", index, 0, name .. ":" .. slip.id) end
end

if slip.due < 0 then redis.call("ZREM", due, slip.id) else redis.call("ZADD", due, whole(now + slip.due), slip.id) end

if slip.settled > 0 then -- Since its last change: what still moves does not leave.
  redis.call("ZADD", settled, whole(now), slip.id)
elseif slip.settled < 0 then
  redis.call("ZREM", settled, slip.id)
end

for _, change in ipairs(slip.exposure) do
  redis.call("HINCRBY", exposure, "a|" .. change[1], change[2])
  if redis.call("HINCRBY", exposure, "n|" .. change[1], change[3]) == 0 then
    redis.call("HDEL", exposure, "a|" .. change[1], "n|" .. change[1])
  end
end

if #holds > 0 then
  for _, old in ipairs(held) do
    if old.b ~= "consumed" then add(old, old.b, "-" .. old.a) end
  end
  for _, hold in ipairs(holds) do add(hold, "reserved", hold.a) end
else
  for _, old in ipairs(held) do -- What was released is not taken back unasked: that would pass the caps by.
    if not (old.b == "released" and slip.bucket == "reserved") then holds[#holds + 1] = old end
  end
end
for _, hold in ipairs(holds) do
  if hold.b ~= slip.bucket then
    add(hold, hold.b, "-" .. hold.a)
    if slip.bucket == "consumed" and not hold.k and slip.actual ~= "" then hold.a = slip.actual end
    add(hold, slip.bucket, hold.a)
    hold.b = slip.bucket
  end
end

for i, name in ipairs(slip.keep) do redis.call("HSET", kept, slip.id .. ":" .. name, ARGV[2 + i]) end
for _, name in ipairs(slip.drop) do redis.call("HDEL", kept, slip.id .. ":" .. name) end

local commits = head and head.c or {}
commits[#commits + 1] = {slip.commit, version, sequence, whole(now), stale}
if #commits > COMMITS_REMEMBERED then table.remove(commits, 1) end
local packed = cmsgpack.pack({v = version, o = slip.owner, w = now + slip.owned, u = slip.unresolved, c = commits, h = holds})
redis.call("HSET", actions, slip.id, struct.pack(">I4", #packed) .. packed .. record)
return {"committed", version, sequence, whole(now), stale, whole(now)}
