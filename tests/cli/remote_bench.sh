#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# headrace bench --remote: both sides on this machine, over a libibverbs without a network device.
set -uo pipefail
# shellcheck source=tests/cli/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"
# shellcheck source=tests/cli/lib/remote.sh
. "$(dirname "$0")/lib/remote.sh"

# side send|take OPTIONS...: run this side beside the script
side() {
    local name=$1 file=key
    shift
    [ ! -e "$SCRATCH/$name.key" ] || file=$name.key
    [ "$name" = send ] || set -- --receive "$@"
    setpriv --pdeathsig KILL "$HEADRACE" bench --remote "127.0.0.1:$port" --key "$SCRATCH/$file" "$@" \
        >"$SCRATCH/$name.out" 2>"$SCRATCH/$name.err" </dev/null &
    [ "$name" = send ] && sender=$! || receiver=$!
}

# result send|take EXPRESSION: of the JSON object r of that side
result() {
    json_holds "$SCRATCH/$1.out" r "$2"
}

# value send|take MEMBER
value() {
    json_value "$SCRATCH/$1.out" r "r['$2']"
}

# agree: what both sides count is the same
agree() {
    local member
    for member in tile_bytes depth tiles bytes; do
        [ "$(value send $member)" = "$(value take $member)" ] ||
            { echo "$member: $(value send $member), $(value take $member)"; return 1; }
    done
}

members='["schema", "version", "side", "address", "path", "tile_bytes", "slots", "depth", "tiles", "bytes", "duration_ms", "mb_per_s",
    "cpu_ms_per_gb", "broken", "tiles_again", "not_ready", "connections_refused", "exit_code"]'
members=${members//$'\n'/}

numbers_agree() {
    stop_all
    side take --json --tile 10000 --slots 5 && side send --json --tile 10000 --depth 3 --tiles 777 &&
        ended send 0 && ended take 0 && agree || return 1
    for each in send take; do
        result $each "list(r) == $members" &&
            result $each 'r["tiles"] == 777 and r["bytes"] == 7770000 and r["tile_bytes"] == 10000' &&
            result $each 'r["depth"] == 3 and r["not_ready"] == 0 and r["exit_code"] == 0' &&
            result $each 'r["duration_ms"] > 0 and r["mb_per_s"] > 0 and r["cpu_ms_per_gb"] > 0' &&
            result $each 'abs(r["mb_per_s"] * r["duration_ms"] / 1e3 / (776 * 10000 / 1e6) - 1) < 0.01' || return 1
    done
    result send 'r["side"] == "sender" and r["slots"] == 6 and "fake0 port 1" in r["path"]' &&
        result take "r['side'] == 'receiver' and r['slots'] == 5 and r['address'] == '127.0.0.1:$port'"
}

# shapes OPTIONS_OF_RECEIVER OPTIONS_OF_SENDER TILES
shapes() {
    echo "receiver $1, sender $2"
    # shellcheck disable=SC2086
    side take --json $1 && side send --json $2 --tiles "$3" && ended send 0 && ended take 0 && agree &&
        result take "r['tiles'] == $3"
}

slots_and_depth_differ() {
    stop_all
    shapes "--slots 1" "--slots 1 --depth 1" 7 && shapes "--slots 1 --tile 64K" "--depth 16 --tile 64K" 200 &&
        shapes "--slots 64 --tile 1" "--slots 3 --depth 2 --tile 1" 500 &&
        shapes "--tile 4K" "--slots 1024 --depth 1024 --tile 4K" 3000 && shapes "" "" 1 &&
        result take 'r["mb_per_s"] == 0 and r["bytes"] == 1 << 20'
}

a_time_limits_it() {
    stop_all
    side take --json --tile 64K && side send --json --tile 64K --seconds 0.3 && ended send 0 && ended take 0 &&
        agree && result take 'r["tiles"] > 0 and r["bytes"] == r["tiles"] * 65536'
}

text_is_printed() {
    stop_all
    side take && side send --tiles 20 && ended send 0 && ended take 0 || return 1
    for each in send take; do
        grep -qE "^  tiles that have arrived +20$" $"$SCRATCH/$each.out" &&
            grep -qE "^  bytes of these tiles +20971520$" "$SCRATCH/$each.out" &&
            grep -qE "^  rate in that time, .* MB/s$" "$SCRATCH/$each.out" &&
            grep -qE "^  tiles that the sender has in flight at most +8$" "$SCRATCH/$each.out" || return 1
    done
    grep -q "^receiver, fake0 port 1, 127.0.0.1 <- 127.0.0.1:[0-9]*$" "$SCRATCH/take.out"
}

# breaks FAULTS_OF_RECEIVER FAULTS_OF_SENDER
breaks() {
    FAKE_IBVERBS_FAULTS=$1 side take --json --tile 64K && FAKE_IBVERBS_FAULTS=$2 side send --json --tile 64K --tiles 500 &&
        ended send 0 && ended take 0 && agree && tells send "the connection is broken:" &&
        tells take "the connection is broken:" && result send 'r["broken"] >= 1 and r["tiles"] == 500' &&
        result take 'r["broken"] >= 1 and r["not_ready"] == 0'
}

breaks_are_counted() {
    stop_all
    breaks '' cut=150 && breaks cut=60 ''
}

# connected: both processes have a TCP connection
connected() {
    python3 - "$receiver" "$sender" <<'PY'
import os
import sys
def talks(process):
    """True when the process has a connection of TCP."""
    inodes = set()
    for fd in os.listdir(f"/proc/{process}/fd"):
        try:
            inodes.add(os.readlink(f"/proc/{process}/fd/{fd}"))
        except OSError:
            pass
    with open(f"/proc/{process}/net/tcp") as table:
        rows = [line.split() for line in table][1:]
    return any(row[3] == "01" and f"socket:[{row[9]}]" in inodes for row in rows)
sys.exit(not all(talks(process) for process in sys.argv[1:]))
PY
}

# under_load: both sides run without an end, and are connected
under_load() {
    stop_all
    side take --json --tile 64K && side send --json --tile 64K --seconds 600 && until_true 60 connected
}

ctrl_c_ends_both() {
    under_load && kill -INT "$sender" && ended send 1 && ended take 1 && tells send "bench: interrupted" &&
        result send 'r["exit_code"] == 1' && result take 'r["exit_code"] == 1' || return 1
    under_load && kill -TERM "$receiver" && ended take 1 && ended send 1 && tells take "bench: interrupted" &&
        tells send "the other side has ended: interrupted" || return 1
    side take && until_true 60 grep -q "$(printf ':%04X 00000000:0000 0A' "$port")" /proc/net/tcp &&
        kill -INT "$receiver" && ended take 1 && tells take "bench: interrupted" && [ ! -s "$SCRATCH/take.out" ]
}

a_killed_side_is_said() {
    under_load && kill -KILL "$sender" && ended send 137 && ended take 4 &&
        tells take "the other side is gone for 10 s" && result take 'r["exit_code"] == 4' || return 1
    under_load && kill -KILL "$receiver" && ended take 137 && ended send 4 &&
        tells send "the other side is gone for 10 s" || return 1
}

# busy PROCESS: it has used 0.2 s of CPU time, which idle waits do not reach, so tiles have moved
busy() {
    local stat
    stat=$(<"/proc/$1/stat") && read -ra stat <<<"${stat##*) }" && [ $((stat[11] + stat[12])) -ge 20 ]
}

# The tiles that a sender has seen arrive are not there in another receiver.
another_receiver_ends_the_sender() {
    under_load && until_true 100 busy "$receiver" && kill -KILL "$receiver" && ended take 137 && side take --tile 64K && ended send 4 &&
        tells send "the receiver has lost tile" && kill -INT "$receiver" && ended take 1
}

# The figures of a receiver are those of one sender.
another_sender_ends_both() {
    under_load && until_true 100 busy "$receiver" && kill -KILL "$sender" && ended send 137 &&
        side send --tile 64K && ended send 1 && tells send "the receiver has tiles of another sender" &&
        ended take 1 && tells take "the other side has ended: the receiver has tiles of another sender"
}

strangers_are_refused() {
    stop_all
    key send.key && side take && side send && ended send 2 && tells send "it has another key" &&
        until_true 60 grep -q "refused: another key" "$SCRATCH/take.err" && rm "$SCRATCH/send.key" &&
        side send --tile 64K && ended send 2 && tells send "its tiles have another size" &&
        side send --tiles 3 && ended send 0 && ended take 0
}

# bad CODE TEXT OPTIONS...: one line, the text, and nothing on stdout
bad() {
    local code=$1 text=$2
    shift 2
    exits "$code" bench "$@" && warns "$text" && [ "$(wc -l <"$SCRATCH/err")" -le 2 ] && [ ! -s "$SCRATCH/out" ]
}

options_that_do_not_fit_are_refused() {
    local at=(--remote "127.0.0.1:$port") with=(--key "$SCRATCH/key")
    stop_all
    bad 2 "--remote needs --key FILE" "${at[@]}" && bad 2 "--key needs --remote" "${with[@]}" &&
        bad 2 "--receive needs --remote" --receive && bad 2 "--tiles needs --remote" --tiles 3 &&
        bad 2 "--remote takes no --blocks" "${at[@]}" "${with[@]}" --blocks 2 &&
        bad 2 "--remote takes no --bind" "${at[@]}" "${with[@]}" --bind &&
        bad 2 "--remote takes no configuration" "${at[@]}" "${with[@]}" x.conf &&
        bad 2 "--receive takes no --depth" "${at[@]}" "${with[@]}" --receive --depth 3 &&
        bad 2 "--receive takes no --tiles" "${at[@]}" "${with[@]}" --receive --tiles 3 &&
        bad 2 "--receive takes no --seconds" "${at[@]}" "${with[@]}" --receive --seconds 3 &&
        bad 2 "--seconds and --tiles exclude each other" "${at[@]}" "${with[@]}" --seconds 3 --tiles 3 &&
        bad 2 "--slots 4 is less than the depth, 8" "${at[@]}" "${with[@]}" --slots 4 &&
        bad 2 "--depth: '1025' is out of range" "${at[@]}" "${with[@]}" --depth 1025 &&
        bad 2 "--slots: '1025' is out of range" "${at[@]}" "${with[@]}" --slots 1025 &&
        bad 2 "--tile: '65M' is out of range" "${at[@]}" "${with[@]}" --tile 65M &&
        bad 2 "--tile: '0' is out of range" "${at[@]}" "${with[@]}" --tile 0 &&
        bad 2 "--tiles: '-1' is out of range" "${at[@]}" "${with[@]}" --tiles -1 &&
        bad 2 "option '--remote' needs a value" --remote
}

addresses_keys_and_devices_are_checked() {
    local at=(--remote "127.0.0.1:$port") with=(--key "$SCRATCH/key")
    stop_all
    bad 2 "localhost:1" --remote localhost:1 "${with[@]}" && bad 2 "127.0.0.1" --remote 127.0.0.1 "${with[@]}" || return 1
    bad 2 "key file $SCRATCH/none: cannot be opened: No such file" "${at[@]}" --key "$SCRATCH/none" && key open.key &&
        chmod 640 "$SCRATCH/open.key" &&
        bad 2 "may be accessed by other users" "${at[@]}" --key "$SCRATCH/open.key" &&
        chmod 600 "$SCRATCH/open.key" && truncate -s 31 "$SCRATCH/open.key" &&
        bad 2 "exactly 32 bytes" "${at[@]}" --key "$SCRATCH/open.key" || return 1
    FAKE_IBVERBS_DEVICES='' bad 3 "no RDMA device" "${at[@]}" "${with[@]}" &&
        FAKE_IBVERBS_DEVICES='fake0=10.9.8.7' bad 3 "no RDMA device has the address 127.0.0.1" "${at[@]}" "${with[@]}" &&
        FAKE_IBVERBS_FAULTS='deaf=1' bad 4 "loopback" "${at[@]}" "${with[@]}" || return 1
    mkdir -p "$SCRATCH/broken" && echo "no library" >"$SCRATCH/broken/libibverbs.so.1" &&
        LD_LIBRARY_PATH=$SCRATCH/broken bad 3 "libibverbs" "${at[@]}" "${with[@]}" || return 1
    side take && until_true 60 grep -q "$(printf ':%04X 00000000:0000 0A' "$port")" /proc/net/tcp &&
        bad 3 "127.0.0.1:$port" "${at[@]}" "${with[@]}" --receive && stop_all
}

check "numbers of both sides agree, and members of JSON are right" numbers_agree
check "slots, depth and size of tiles" slots_and_depth_differ
check "a time limits the measurement" a_time_limits_it
check "tables have the same numbers" text_is_printed
check "breaks are counted, and no tile is lost" breaks_are_counted
check "Ctrl-C ends both sides" ctrl_c_ends_both
check "a killed side is said by the other one" a_killed_side_is_said
check "another receiver ends the sender" another_receiver_ends_the_sender
check "another sender ends both" another_sender_ends_both
check "senders with another key or size of tiles are refused" strangers_are_refused
check "options that do not fit are refused" options_that_do_not_fit_are_refused
check "addresses, key files and devices are checked" addresses_keys_and_devices_are_checked
stop_all
done_testing
