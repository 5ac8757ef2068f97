# shellcheck shell=dash disable=SC2154
# An SSD that fails under a running pipeline: I/O errors, commands that do not end, bus mastering lost, a
# reset from outside, the process killed, the card pulled. Each ends with the documented exit code in
# bounded time and with a line that says what happened; what is on the disk is good afterwards.
#: run pci machine=fault boot=intel_iommu=off
#: run vfio machine=fault_iommu boot=intel_iommu=on
#: tools setpci
#: limit 200

ssd=$INSTANCE:$nv0

# configure OBJECT: a pipeline that reads it, in small tiles so that it takes a while
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

# start: the pipeline in the background, slowed down, until it has done some tiles
start() {
    host throttle nv0 300
    headrace run /tmp/run.conf >/tmp/out 2>/tmp/err &
    pid=$!
    soon has_done_tiles && kill -0 $pid
}

# now_ms: since boot
now_ms() {
    read -r uptime _ </proc/uptime
    echo "${uptime%.*}${uptime#*.}0"
}

# register ADDRESS OFFSET [VALUE]: read or write 32 bits of BAR 0, which no driver has
register() {
    read -r bar _ <"$(pci "$1")/resource"
    devmem $((bar + $2)) 32 ${3:+"$3"}
}

# ends CODE SECONDS: the pipeline that was started does; since: when the fault was made, or empty
ends() {
    for _ in $(seq $(($2 * 10))); do
        kill -0 $pid 2>/dev/null || break
        sleep 0.1
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
    check "$1: the object is there and whole" exits 0 headrace store get --force "$ssd" first /tmp/back
    check "$1: as it was put" cmp /data/first /tmp/back
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
check "put over a sector that cannot be read" exits 0 headrace store put "$ssd" second /data/second
check "get of it" exits 4 headrace store get --force "$ssd" second /tmp/back
check "get names the LBA and the status" warns "$nv0: read of"
check "by its name" warns "Unrecovered Read Error (281)"
configure second
check "a pipeline over it" exits 4 headrace run /tmp/run.conf
check "it names object, tile, LBA and queue" warns "object 'second', tile 93, LBA 40000: ssd 'ssd0' queue"
check "put over a sector that cannot be written" exits 4 headrace store put "$ssd" third /data/third
check "it names LBA and status" warns "Write Fault (280)"
check "nothing of that object stays" sh -c "headrace store ls $ssd | grep -c . && ! headrace store ls $ssd | grep third"
intact "I/O errors"

configure first
sed -i 's/timeout_ms = 3000/timeout_ms = 700/' /tmp/run.conf
check "a long pipeline starts" start
host throttle nv0 1
check "commands that do not end" ends 4 30
check "are said to have timed out" grep -q "lost command .*no completion within 700 ms" /tmp/err
intact "commands that did not end"
configure first

# What is wrong with the controller itself is seen in its registers: long before the deadline of a command,
# which is 30 times what these runs may take.
sed -i 's/timeout_ms = 3000/timeout_ms = 600000/' /tmp/run.conf
start
since=$(now_ms)
setpci -s "$nv0" COMMAND=0:4
check "bus mastering lost" ends 4 20 # it says after how long
check "bus mastering lost: says so" grep -q "$nv0: controller fatal status" /tmp/err
intact "bus mastering lost"

start
since=$(now_ms)
echo 1 >"$(pci "$nv0")/reset"
check "a reset from outside" ends 4 20
# While a function is reset its registers cannot be read, and afterwards CC.EN is 0.
check "a reset from outside: says so" \
    grep -qE "$nv0: (CC.EN is 0|.*is gone, or its function is being reset)" /tmp/err
intact "a reset from outside"

if [ "$INSTANCE" = pci ]; then
    start
    since=$(now_ms)
    cc=$(($(register "$nv0" 20)))
    register "$nv0" 20 $((cc & ~1)) && register "$nv0" 20 $cc
    check "a reset from outside, and enabled again" ends 4 20
    check "a reset from outside, and enabled again: says so" \
        grep -q "$nv0: .*the controller was reset" /tmp/err
    intact "a reset from outside, and enabled again"
fi

start
since=
kill -9 $pid
check "killed" ends 137 5
intact "killed"

start
kill -TERM $pid
check "terminated" ends 1 10
intact "terminated"

# QEMU 7.2 crashes when a card takes a command in the moment it goes: few commands, few such moments.
start
[ "$INSTANCE" = vfio ] || host throttle nv0 2
since=$(now_ms)
host unplug nv0
if [ "$INSTANCE" = pci ]; then
    check "pulled" ends 4 20
    check "pulled: says so" grep -q "$nv0: .*the device is gone" /tmp/err
else # the kernel asks and waits until we let go
    host throttle nv0 0
    check "a card that is to leave stays until the run is done" ends 0 30
fi
check "afterwards there is no such card" soon exits 3 headrace store ls "$ssd"
