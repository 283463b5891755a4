-- For wrk: sends the rows that bench/compare/serve.py has written, and compares each answer with what `xsoftmax predict` says
-- of the two models that take turns. wrk -s serve.lua URL -- ROWS.lua
local threads = {}

function setup(thread)
    table.insert(threads, thread)
    thread:set("number", #threads)
end

function init(arguments)
    rows = dofile(arguments[1])
    requests = {}
    for i, row in ipairs(rows) do
        requests[i] = wrk.format("POST", "/predict", {}, row.body)
    end
    sent = number * 1000
    known = {[0] = {}, [1] = {}} -- answers that were compared before, of either model
    answers, wrong, first = 0, 0, ""
end

function request()
    sent = sent + 1
    return requests[sent % #requests + 1]
end

local function near(a, b)
    return math.abs(a - b) <= 1e-5 * math.abs(b) + 1e-12
end

-- The classes of an answer, against lines of name, score and probability.
local function same(answer, wanted)
    local count = 0
    for name, score, probability in answer:gmatch('"[nl]a[mb]el?":"?([^",]*)"?,"score":([^,]*),"probability":([^}]*)}') do
        count = count + 1
        local one = wanted[count]
        if not one or one[1] ~= name or not near(tonumber(score), one[2]) or not near(tonumber(probability), one[3]) then
            return false
        end
    end
    return count == #wanted
end

function response(status, headers, body)
    answers = answers + 1
    local generation, rest = body:match('^{"generation":(%d+),(.*)$')
    local which = generation and tonumber(generation) % 2
    if status == 200 and which and known[which][rest] then
        return
    end
    local row = status == 200 and which and rows[tonumber(rest:match('^"id":(%d+),'))]
    if row and same(rest, which == 1 and row.a or row.b) then
        known[which][rest] = true
    else
        wrong = wrong + 1
        first = first == "" and status .. " " .. body or first
    end
end

function done(summary, latency)
    local answered, bad, text = 0, 0, ""
    for _, thread in ipairs(threads) do
        answered = answered + thread:get("answers")
        bad = bad + thread:get("wrong")
        text = text == "" and thread:get("first") or text
    end
    local errors = summary.errors
    local failed = errors.connect + errors.read + errors.write + errors.status + errors.timeout
    io.write(string.format("answers %d wrong %d failed %d per_second %.0f p50 %d p99 %d p99.9 %d max %d\n", answered, bad, failed,
        summary.requests / summary.duration * 1e6, latency:percentile(50), latency:percentile(99), latency:percentile(99.9), latency.max))
    if text ~= "" then
        io.write("first wrong answer: " .. text .. "\n")
    end
end
