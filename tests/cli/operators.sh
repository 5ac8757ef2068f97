#!/bin/bash
# User operators from source to result: make op, the configuration, a run against another program,
# and every way to get one wrong.
set -uo pipefail
# shellcheck source=tests/cli/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"

template=gpu/ops/template/histogram.c
image="soft:$SCRATCH/a.img"

# builds SOURCE: the host part alone, into $SCRATCH; as a user calls it, not as part of this make
builds() {
    env -i PATH="$PATH" make NVCC= O="$SCRATCH" op OP="$1" >"$SCRATCH/out" 2>"$SCRATCH/err"
}

# conf ARGUMENTS [SINK [WRITEBACK]]: a configuration with operator $op of $file, over $slots slots
conf() {
    cat >"$SCRATCH/x.conf" <<CONF
ssds = ( { name = "a"; device = "$image"; } );
gpus = ( { name = "g"; device = "host:2"; } );
operators = (
    { name = "${op:-histogram}";
      file = "${file:-histogram.op}"; }
);
pipelines = ( {
    name = "p"; source = { object = "numbers"; };
    operator = "${op:-histogram}"; args = { $1 };
    ${2:-}
    tile = "64K"; slots = ${slots:-4}; blocks = { prefetch = ${slots:-2}; compute = ${slots:-2}; ${3:-} };
} );
CONF
}

build_template() {
    builds "$template" && says "operator $SCRATCH/histogram.op: for the host backend only" &&
        [ -s "$SCRATCH/histogram.op" ] && silent
}

# Numbers of all kinds, from another program.
numbers() {
    python3 - "$SCRATCH/numbers" <<'PY'
import random, struct, sys
random.seed(5)
v = [random.gauss(0, 1) for _ in range(300001)]
v[7] = float("nan"); v[1000] = float("inf"); v[200000] = float("-inf"); v[9] = 4.0; v[10] = -4.0
open(sys.argv[1], "wb").write(struct.pack("<%df" % len(v), *v))
PY
}

store() {
    exits 0 store format "$image,size=64M" && exits 0 store put "$image" numbers "$SCRATCH/numbers"
}

counts() {
    python3 - "$SCRATCH/numbers" "$SCRATCH/out" <<'PY'
import json, math, struct, sys
data = open(sys.argv[1], "rb").read()
result = json.load(open(sys.argv[2]))["pipelines"][0]["result"]
edges = [-4 + i * 8 / 16 for i in range(17)]    # exact in binary
bins, below, above, nan, rest = [0] * 16, 0, 0, 0, []
for x in struct.unpack("<%df" % (len(data) // 4), data):
    if math.isnan(x):
        nan += 1
        continue
    rest.append(x)
    below += x < edges[0]
    above += x >= edges[16]
    for i in range(16):
        bins[i] += edges[i] <= x < edges[i + 1]
want = {"bins": bins, "below": below, "above": above, "nan": nan, "least": "-inf", "greatest": "inf"}
if result != want:
    sys.exit("result is %s, expected %s" % (result, want))
if sum(bins) + below + above + nan != 300001:
    sys.exit("not all counted")
PY
}

runs_template() {
    conf 'from = -4; to = 4.0; bins = 16;'
    exits 0 run "$SCRATCH/x.conf" --json && silent && counts
}

prints_result() {
    exits 0 run "$SCRATCH/x.conf" && says "    nan 1" && says "    least -inf" && says "    bins "
}

# One bit of the numbers on the disk: no result of an operator that knows nothing of checksums.
rotten_numbers() {
    flip && exits 4 run "$SCRATCH/x.conf" --json && warns "object 'numbers' on ssd 'a' is not what was stored" &&
        json '"result" not in r["pipelines"][0]' && flip && exits 0 run "$SCRATCH/x.conf" --json &&
        json 'r["pipelines"][0]["sources"][0]["verified"] is True' && counts
}

flip() {
    exits 0 store ls "$image" --json && python3 - "$SCRATCH/out" "$SCRATCH/a.img" <<'PY'
import json, sys
with open(sys.argv[2], "r+b") as image:
    image.seek(json.load(open(sys.argv[1]))["objects"][0]["offset_bytes"] + 100000)
    byte = image.read(1)[0]
    image.seek(-1, 1)
    image.write(bytes([byte ^ 1]))
PY
}

lists() {
    exits 0 check --operators "$SCRATCH/x.conf" && says "topk_dot" &&
        says "histogram ($SCRATCH/histogram.op: for the host backend only)" &&
        says "how many numbers lie in each of the bins" &&
        exits 0 check "$SCRATCH/x.conf" --operators --json &&
        json 'len(r["operators"]) == 6 and r["operators"][5]["name"] == "histogram"' &&
        json 'r["operators"][5]["built_in"] == False and r["operators"][5]["gpu_bytes"] == 0' &&
        exits 0 check --operators && ! grep -q histogram "$SCRATCH/out"
}

checks_plan() {
    exits 0 check "$SCRATCH/x.conf" && says "histogram on g: 19 tiles" && says "operator states"
}

from_elsewhere() {
    local here=$PWD
    (cd / && timeout 60 "$HEADRACE" check "$SCRATCH/x.conf" >/dev/null) || return 1
    (cd "$SCRATCH" && timeout 60 "$HEADRACE" check x.conf >/dev/null) && [ "$PWD" = "$here" ]
}

arguments_are_checked() {
    conf 'from = 1; to = 0; bins = 1000;'
    exits 2 check "$SCRATCH/x.conf" && warns "x.conf:9: pipelines[0].args: bins: 1000 is outside of 1..256"
}

no_source() {
    ! builds "" && warns "OP names one source file"
}

missing_source() {
    ! builds "$SCRATCH/none.c" && warns "there is no file $SCRATCH/none.c"
}

# What the host part lacks shows when it is built, not when it is loaded.
undefined_symbol() {
    sed 's/hr_operator_finish(const/hr_operator_end(const/' "$template" >"$SCRATCH/open.c"
    ! builds "$SCRATCH/open.c" && warns "hr_operator_finish" && [ ! -e "$SCRATCH/open.op" ]
}

no_file() {
    file=none.op conf ''
    exits 2 check "$SCRATCH/x.conf" &&
        warns "x.conf:5: operators[0].file: '$SCRATCH/none.op' cannot be opened: No such file"
}

no_operator() {
    cp "$SCRATCH/x.conf" "$SCRATCH/no.op"
    file=no.op conf ''
    exits 2 check "$SCRATCH/x.conf" && warns "no.op' is no operator file" || return 1
    cp "$(ldd /bin/sh | awk '/libc\.so/ { print $3 }')" "$SCRATCH/no.op"
    exits 2 check "$SCRATCH/x.conf" && warns "no.op' is a shared object, but no operator"
}

# patched FIELD VALUE: a copy of the template's file whose note has another word there
patched() {
    python3 - "$SCRATCH/histogram.op" "$SCRATCH/patched.op" "$1" "$2" <<'PY'
import struct, sys
data = bytearray(open(sys.argv[1], "rb").read())
note = data.index(b"headrace\0\0\0\0") + 12
struct.pack_into("<I", data, note + 4 * int(sys.argv[3]), int(sys.argv[4]))
open(sys.argv[2], "wb").write(data)
PY
}

other_version() {
    file=patched.op conf ''
    patched 0 99
    exits 2 check "$SCRATCH/x.conf" && warns "version 99 of the operator interface" &&
        warns "make op OP=SOURCE" || return 1
    patched 3 7
    exits 2 check "$SCRATCH/x.conf" && warns "is built with other headers"
}

cut_off() {
    file=patched.op conf ''
    head -c 20000 "$SCRATCH/histogram.op" >"$SCRATCH/patched.op"
    exits 2 check "$SCRATCH/x.conf" && warns "is cut off: it has 20000 bytes"
}

public() {
    file=public.op conf ''
    cp "$SCRATCH/histogram.op" "$SCRATCH/public.op"
    chmod 777 "$SCRATCH/public.op"
    exits 2 check "$SCRATCH/x.conf" && warns "may be written by everyone (mode 777)"
}

wrong_name() {
    op=histogran conf ''
    exits 2 check "$SCRATCH/x.conf" &&
        warns "x.conf:4: operators[0].name: is 'histogran', but the operator in" &&
        warns "is called 'histogram'"
}

built_in_name() {
    op=copy conf ''
    exits 2 check "$SCRATCH/x.conf" && warns "'copy' is the name of a built-in operator"
}

# liar LIE: the operator of tests/op/liar.c, told what to do wrong
liar() {
    op=liar file=liar.op conf "lie = \"$1\";" 'sink = { object = "copy"; replace = true; };' 'writeback = 2;'
}

makes_data() {
    builds tests/op/liar.c || return 1
    liar none
    exits 0 run "$SCRATCH/x.conf" && exits 0 store get --force "$image" copy "$SCRATCH/copy" &&
        cmp "$SCRATCH/numbers" "$SCRATCH/copy"
}

# A built-in operator and an operator file have one form: the source of one makes the other.
built_in_source() {
    sed 's/\.name = "topk_dot"/.name = "nearest"/' gpu/ops/topk_dot.c >"$SCRATCH/nearest.c"
    builds "$SCRATCH/nearest.c" || return 1
    op=nearest file=nearest.op conf 'query = [ 0.5 ]; k = 3;'
    exits 0 run "$SCRATCH/x.conf" --json && json 'r["pipelines"][0]["operator"] == "nearest"' &&
        json 'r["pipelines"][0]["result"]["best"][0] == {"row": 1000, "score": "inf"}' || return 1
    cp "$SCRATCH/out" "$SCRATCH/nearest.json"
    sed -i 's/operator = "nearest"/operator = "topk_dot"/' "$SCRATCH/x.conf"
    exits 0 run "$SCRATCH/x.conf" --json && json 'r["pipelines"][0]["operator"] == "topk_dot"' &&
        python3 - "$SCRATCH/nearest.json" "$SCRATCH/out" <<'PY'
import json, sys
one, other = [json.load(open(name))["pipelines"][0]["result"] for name in sys.argv[1:]]
if one != other or len(one["best"]) != 3:
    sys.exit("file: %s, built in: %s" % (one, other))
PY
}

# The sink depends on what the operator does, not only on its name.
knows_its_sink() {
    op=liar file=liar.op conf 'lie = "none";' 'sink = { object = "kept"; };' 'writeback = 1;'
    exits 0 run "$SCRATCH/x.conf" --json && json 'r["pipelines"][0]["outcome"] == "done"' &&
        json 'r["pipelines"][0]["result"]["tiles"] == 19' &&
        exits 0 run "$SCRATCH/x.conf" --json && json 'r["pipelines"][0]["outcome"] == "already complete"' || return 1
    sed 's/Argument: lie\./Argument: lie!/' tests/op/liar.c >"$SCRATCH/liar.c"
    builds "$SCRATCH/liar.c" && exits 1 run "$SCRATCH/x.conf" && warns "object 'kept' exists on ssd 'a'"
}

# Its result is over all tiles, so a run that was cut short does not go on in the middle.
starts_over() {
    slots=1 op=liar file=liar.op conf 'lie = "more";' 'sink = { object = "cut"; };' 'writeback = 1;'
    exits 1 run "$SCRATCH/x.conf" --json && json 'r["pipelines"][0]["sink"]["durable_tiles"] == 3' &&
        exits 1 run "$SCRATCH/x.conf" --json && json 'r["pipelines"][0]["first_tile"] == 0' &&
        json 'r["pipelines"][0]["sink"]["durable_tiles"] == 3' && ! grep -q "to go on from there" "$SCRATCH/err"
}

# Three tiles come before the lie; of later ones nothing may count as durable.
broken_promise() {
    liar "$1"
    exits 1 run "$SCRATCH/x.conf" --json && warns "pipeline 'p': operator liar made $2 bytes of tile" &&
        warns "for object 'copy', but has promised $3" &&
        json 'r["pipelines"][0]["outcome"] == "failed"' &&
        json "r['pipelines'][0]['failure']['output_bytes'] == $2" &&
        json "r['pipelines'][0]['failure']['promised_bytes'] == $3" &&
        json 'r["pipelines"][0]["failure"]["tile"] >= 3' &&
        json 'r["pipelines"][0]["sink"]["durable_tiles"] <= 3'
}

absurd_state() {
    liar "state long"
    exits 2 check "$SCRATCH/x.conf" && warns "liar has a state of 16777224 bytes, expected at most 16777216" || return 1
    liar "state big"
    sed -i 's/^gpus/memory = { host = "16M"; };\n&/' "$SCRATCH/x.conf"
    exits 2 check "$SCRATCH/x.conf" && warns "the partition does not fit"
}

check "make op builds the template, and says what it made" build_template
check "numbers, and a store that holds them" numbers
check "... put" store
check "its result is what another program counts" runs_template
check "... and is printed for people" prints_result
check "... but not when the numbers are not what was stored" rotten_numbers
check "check --operators lists it" lists
check "check shows its tiles and states" checks_plan
check "its file is found from the configuration's folder" from_elsewhere
check "its arguments are checked, with the line" arguments_are_checked
check "make op without a source" no_source
check "make op with a source that is not there" missing_source
check "make op of a source that lacks a function" undefined_symbol
check "a file that is not there" no_file
check "a file that is no operator" no_operator
check "an operator for another version of the interface" other_version
check "a file that is cut off" cut_off
check "a file that everyone may write" public
check "another name than the operator's own" wrong_name
check "the name of a built-in operator" built_in_name
check "an operator that produces data" makes_data
check "the source of a built-in operator makes an operator file" built_in_source
check "a sink belongs to one version of the operator" knows_its_sink
check "an operator with a result starts over" starts_over
check "an operator that makes more than it promised" broken_promise more 65537 65536
check "an operator that makes less than it promised" broken_promise less 65535 65536
check "a state that cannot be, or does not fit" absurd_state
done_testing
