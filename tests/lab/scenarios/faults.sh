# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash disable=SC2154
# An SSD that fails during a pipeline: I/O errors, commands that do not end, bus mastering lost, a
# reset by another program, the process killed, the card removed. Each run ends in limited time with
# the documented exit code and a line that names the cause; the data on the disk are correct afterwards.
#: run pci machine=fault boot=intel_iommu=off
#: run vfio machine=fault_iommu boot=intel_iommu=on
#: tools setpci
#: limit 200

ssd=$INSTANCE:$nv0

# configure OBJECT: a pipeline that reads OBJECT in small tiles, so that it still runs at the fault
configure() {
    cat >/tmp/run.conf <<EOT
ssds = ( { name = "ssd0"; device = "$ssd"; timeout_ms = 3000; } );
gpus = ( { name = "gpu0"; device = "host:1"; } );
pipelines = ( { name = "p"; source = { object = "$1"; }; operator = "crc32c"; tile = "4K"; slots = 2; } );
EOT
}

has_done_tiles() {
    headrace status 2>/dev/null | grep -q " [1-9][0-9]* of [0-9]* tiles"
}

# start: run the pipeline slowly in the background, and wait until it has done some tiles
start() {
    host throttle nv0 300
    headrace run /tmp/run.conf >/tmp/out 2>/tmp/err &
    pid=$!
    soon has_done_tiles && kill -0 $pid
}

# settle: stop headrace, and let the card complete its commands, because QEMU 7.2 crashes when a card
# executes a command at the moment of its reset or removal. Afterwards `kill -CONT $pid`.
settle() {
    kill -STOP $pid
    host throttle nv0 0
    sleep 1
}

# now_ms: print the milliseconds since boot
now_ms() {
    read -r uptime _ </proc/uptime
    echo "${uptime%.*}${uptime#*.}0"
}

# register ADDRESS OFFSET [VALUE]: read or write 32 bits of BAR 0; no driver is bound
register() {
    read -r bar _ <"$(pci "$1")/resource"
    devmem $((bar + $2)) 32 ${3:+"$3"}
}

# ends CODE SECONDS: the started pipeline ends with CODE within SECONDS; prints the time since the
# fault, `since`, unless `since` is empty
ends() {
    for _ in $(seq $(($2 * 10))); do
        kill -0 $pid 2>/dev/null || break
        nap
    done
    ! kill -9 $pid 2>/dev/null || { echo "did not end"; cat /tmp/err; return 1; }
    wait $pid
    got=$?
    [ -z "$since" ] || echo "after $(($(now_ms) - since)) ms, at most"
    cat /tmp/err
    [ $got = "$1" ] || { echo "exit code $got, expected $1"; return 1; }
}

intact() {
    host throttle nv0 0
    check "$1: get the object" exits 0 headrace store get --force "$ssd" first /tmp/back
    check "$1: the object is exact" cmp /data/first /tmp/back
    rm -f /tmp/back
}

since=
hugepages 32
if [ "$INSTANCE" = vfio ]; then
    modprobe -a vfio-pci vfio_iommu_type1
    bind "$nv0" vfio-pci
fi

# Sectors 40000 (reading) and 80000 (writing) are bad: bytes 20.48 and 40.96 million.
check "format" exits 0 headrace store format "$ssd"
check "put" exits 0 headrace store put "$ssd" first /data/first
check "put over an unreadable sector" exits 0 headrace store put "$ssd" second /data/second
check "get over an unreadable sector" exits 4 headrace store get --force "$ssd" second /tmp/back
check "get names the LBA and the status" warns "$nv0: read of"
check "get names the status text" warns "Unrecovered Read Error (281)"
configure second
check "run over an unreadable sector" exits 4 headrace run /tmp/run.conf
check "the error of the run names object, tile, LBA and queue" warns "object 'second', tile 93, LBA 40000: ssd 'ssd0' queue"
check "put over an unwritable sector" exits 4 headrace store put "$ssd" third /data/third
check "the error of the put names the status" warns "Write Fault (280)"
check "the failed put leaves no object" sh -c "headrace store ls $ssd | grep -c . && ! headrace store ls $ssd | grep third"
intact "I/O errors"

configure first
sed -i 's/timeout_ms = 3000/timeout_ms = 700/' /tmp/run.conf
check "start a long pipeline" start
host throttle nv0 1
check "commands that do not complete end the run" ends 4 60
check "commands that do not complete are reported as lost" grep -q "lost command .*no completion within 700 ms" /tmp/err
intact "commands that did not end"
configure first

# A fault of the controller itself shows in its registers, long before the deadline of a command,
# which is ten times the limit of these runs.
sed -i 's/timeout_ms = 3000/timeout_ms = 600000/' /tmp/run.conf
start
since=$(now_ms)
setpci -s "$nv0" COMMAND=0:4
check "the loss of bus mastering ends the run" ends 4 60 # the message has the time
check "the loss of bus mastering is reported as controller fatal status" grep -q "$nv0: controller fatal status" /tmp/err
intact "bus mastering lost"

# A function that does not decode memory reads like one that is gone, and may still master the bus.
masters_bus() {
    [ $((0x$(setpci -s "$nv0" COMMAND) & 4)) != 0 ]
}
start
settle
since=$(now_ms)
setpci -s "$nv0" COMMAND=0:2
check "memory decoding is off, bus mastering is on" masters_bus
kill -CONT $pid
check "the loss of memory decoding ends the run" ends 4 60
check "a function whose configuration space answers is not gone" grep -q "$nv0: its registers do not answer" /tmp/err
check "its memory stays allocated" grep -q "$nv0: .* stay allocated" /tmp/err
check "and it does not master the bus any more" eval '! masters_bus'
intact "memory decoding lost"

start
settle
since=$(now_ms)
echo 1 >"$(pci "$nv0")/reset"
kill -CONT $pid
check "a reset by another program ends the run" ends 4 60
# While a function is reset its registers are not readable; afterwards CC.EN is 0.
check "a reset by another program is reported" \
    grep -qE "$nv0: (CC.EN is 0|.*is gone, or its function is being reset)" /tmp/err
intact "a reset from outside"

if [ "$INSTANCE" = pci ]; then
    start
    settle
    since=$(now_ms)
    cc=$(($(register "$nv0" 20)))
    register "$nv0" 20 $((cc & ~1)) && register "$nv0" 20 $cc
    kill -CONT $pid
    check "a reset and a new start by another program end the run" ends 4 60
    check "a reset and a new start by another program are reported" \
        grep -q "$nv0: .*the controller was reset" /tmp/err
    intact "a reset from outside, and enabled again"
fi

start
since=
kill -9 $pid
check "kill -9 ends the run" ends 137 60
intact "killed"

start
kill -TERM $pid
check "SIGTERM ends the run" ends 1 60
intact "terminated"

start
[ "$INSTANCE" != pci ] || settle
since=$(now_ms)
host unplug nv0
if [ "$INSTANCE" = pci ]; then
    kill -CONT $pid
    check "the removal of the card ends the run" ends 4 60
    check "the removal of the card is reported" grep -q "$nv0: .*the device is gone" /tmp/err
else # the kernel waits until headrace closes the function
    host throttle nv0 0
    check "a card with a requested removal stays until the run ends" ends 0 60
fi
check "the removed card is missing after the run" soon exits 3 headrace store ls "$ssd"
