# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash disable=SC2154
# An appliance whose pipelines repeat is the first process of the machine. It continues the recorded
# starts of an earlier appliance (life.before.py). Its clock is not set at first; it repeats its
# pipelines, answers requests on its control socket, gets the right time, and loses its power.
# life.after.py checks the disk, and runs the appliance again.
#: run machine=powerfail boot="intel_iommu=off rdinit=/lab/first headrace.config=/lab/life.conf TZ=UTC0"
#: lost QEMU ended
#: limit 240

# value PIPELINE MEMBER: of its object in the status
value() {
    headrace status --json | sed 's/[,{]/\n/g' | awk -F': ' -v name="\"$1\"" -v member="\"$2\"" '
        $1 ~ /"name"/ { on = $2 == name }
        on && index($1, member) { gsub(/[^a-z0-9]/, "", $2); print $2; exit }'
}
at_least() { [ "$(value "$1" "$2")" -ge "$3" ] 2>/dev/null; }
waits_for() { [ "$(value "$1" waits_for)" = "$2" ] || { headrace status; return 1; }; }
more() {
    more_from=$(value "$1" done_count)
    soon at_least "$1" done_count $((more_from + $2))
}

check "headrace is the first process" soon grep -q headrace /proc/1/comm
check "the starts of the last life go on" soon at_least sum done_count $(($(cat /lab/before) + 1))
check "without a clock a time of day is waited for" waits_for nightly clock
check "an interval needs no clock" more copy 1
check "a start is triggered and waited for" exits 0 headrace trigger ask --wait
check "it was counted" at_least ask done_count 1
check "a pipeline is paused" exits 0 headrace pause copy
check "it waits for its resumption" soon waits_for copy resume
check "another one goes on meanwhile" more sum 1
check "it is resumed" exits 0 headrace resume copy
check "it starts again" more copy 1
# The store of the ssd that the appliance drives, by its PCI address: through the control socket.
seq 1 20000 >/tmp/mine
check "the store lists the objects of the running appliance" exits 0 headrace store ls "pci:$nv0"
check "its source is among them" says in
check "an object is stored" exits 0 headrace store put "pci:$nv0" mine /tmp/mine
check "the appliance has carried it out" warns "appliance 'life'"
check "it is read" exits 0 headrace store get "pci:$nv0" mine /tmp/got
check "it has the same bytes" cmp /tmp/mine /tmp/got
check "an object that is not there" exits 1 headrace store get "pci:$nv0" absent -
check "the pipelines go on meanwhile" more sum 1
date -s '2026-11-23 02:59:57'
check "a clock is set, and the time of day comes" soon at_least nightly done_count 1
check "intervals go on" more sum 1
for each in sum copy nightly ask; do
    echo "$each $(value "$each" done_count)"
done >/tmp/counts
check "one more start makes these ends durable" more sum 2
give counts /tmp/counts
host power_off
sleep 60
