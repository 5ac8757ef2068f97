#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Calls that are not deterministic pass through config/base/seam.h and config/base/clock.h: raw calls for clocks,
# sleep, threads and their waits, random numbers, host I/O and processes are refused in the engine,
# the supervisor, the host backend and the software controller, and in all files that they use.
# Otherwise a simulation (tests/sim) does not control them.
#
# Outside of the seam are: gpu/cuda/ (calls of the GPU's driver block real threads), pci/ (helper
# processes that undo changes of devices), boot/cmd/ (input and output of commands at a terminal).
# Before the tree is checked, the rules are tried on a tree that breaks each of them.
# Usage: tests/lint/seam.sh [TREE]
set -euo pipefail

folders=(boot/engine boot/appliance boot/remote config nvme cache gpu)

# Each: FILE CALL, and the reason.
exceptions() {
    cat <<'EOF'
config/base/clock.c clock_gettime            # the seam
config/base/clock.c nanosleep                # the seam
config/base/clock.c sched_yield              # the seam
boot/appliance/machine/init.c waitid            # only looks which orphan has ended; hr_wait_child() takes it
boot/engine/devices/foreign_data.c pwrite              # into memory of this process that has a file descriptor
boot/remote/tcp.c epoll_wait             # only looks what is readable, and does not wait
gpu/tap/client/connection.c clock_gettime      # a library in other processes
gpu/tap/client/connection.c ppoll              # the same
gpu/tap/client/tap.c timerfd_settime      # the same
gpu/tap/examples/tap_c.c nanosleep      # a program that uses it
gpu/tap/examples/feed_c.c nanosleep     # the same
gpu/tap/examples/feed_cuda.c nanosleep  # the same
nvme/dma/hostmem.c pread                    # the page table of this process
nvme/transport/vfio_calls.c pread                 # configuration space of a device, behind a table of calls
nvme/transport/vfio_calls.c pwrite                # the same
EOF
}

calls='clock_gettime|gettimeofday|time|clock_nanosleep|nanosleep|u?sleep|timerfd_settime|alarm
pthread_(create|join|tryjoin_np|timedjoin_np|detach|mutex_(try|timed)?lock)
pthread_rwlock_(try|timed)?(rd|wr)lock|pthread_cond_((timed)?wait|broadcast|signal)|sem_(timed)?wait
sched_(yield|[gs]etaffinity)|getrandom|s?rand|s?random|[lm]rand48
v?fork|posix_spawnp?|wait(pid|id|[34])?|kill|sigwaitinfo|sigtimedwait|sigwait
p?poll|p?select|epoll_p?wait2?|p(read|write)(v2?)?|f(data)?sync'

# Prints "FILE:LINE:CALL(" for each raw call of the tree.
raw_calls() {
    local pattern
    pattern="(^|[^A-Za-z0-9_>.*\"])(${calls//$'\n'/|})\("
    find "${folders[@]}" \( -path gpu/cuda -o -path 'build*' \) -prune -o -name '*.[ch]' -print |
        sort | while read -r file; do
        [ "$file" = config/base/seam_linux.c ] ||
            sed -E 's,/\*.*(\*/|$),,; s,^[[:blank:]]*\*( .*|/)?$,,; s,"([^"\\]|\\.)*","",g' "$file" |
            grep -noE "$pattern" | sed -E "s,^([0-9]+):[^A-Za-z0-9_]?,$file:\1:," || true
    done
}

check() {
    local bad=0 file line call
    while IFS=: read -r file line call; do
        call=${call%(}
        if ! exceptions | grep "^$file $call " >/dev/null; then
            echo "$file:$line: calls $call(): config/base/seam.h has it for all of the product"
            bad=1
        fi
    done < <(raw_calls)
    while read -r file call _; do
        if ! grep -qs "\b$call(" "$file"; then
            echo "tests/lint/seam.sh: the exception '$file $call' is not needed"
            bad=1
        fi
    done < <(exceptions)
    return "$bad"
}

# A tree in which every rule is broken once, and nothing else is wrong.
prove() {
    local tree want got
    tree=$(mktemp -d)
    mkdir -p "$tree"/{boot/engine/devices,boot/appliance/machine,boot/remote,config/base,nvme/{soft,dma,transport},cache,gpu/cuda,gpu/host,gpu/tap/{client,examples}}
    cd "$tree"
    printf 'clock_gettime(a);\nnanosleep(a);\nsched_yield();\n' >config/base/clock.c
    echo 'pthread_create(a);' >config/base/seam_linux.c
    echo 'while (waitid(P_ALL)) ;' >boot/appliance/machine/init.c
    echo 'x = pwrite(fd);' >boot/engine/devices/foreign_data.c
    echo 'if (pread(fd)) ;' >nvme/dma/hostmem.c
    printf 'pread(a);\npwrite(a);\n' >nvme/transport/vfio_calls.c
    echo 'pthread_create(a);' >gpu/cuda/cuda.c
    printf 'clock_gettime(a);\nppoll(a);\n' >gpu/tap/client/connection.c
    echo 'timerfd_settime(a);' >gpu/tap/client/tap.c
    echo 'epoll_wait(a);' >boot/remote/tcp.c
    echo 'nanosleep(a);' >gpu/tap/examples/tap_c.c
    echo 'nanosleep(a);' >gpu/tap/examples/feed_c.c
    echo 'nanosleep(a);' >gpu/tap/examples/feed_cuda.c
    cat >nvme/soft/good.c <<'EOF'
/* kill(1), in a comment */
 * fork(), in a long one
x->poll(a), y.wait(b), hr_kill(c), runtime(d), say("kill(2)"), pid = hr_fork();
EOF
    check || { echo "seam.sh: refuses a tree in which nothing is wrong" >&2; exit 1; }
    {
        for call in clock_gettime time usleep nanosleep pthread_create pthread_join \
            pthread_mutex_lock pthread_rwlock_rdlock pthread_rwlock_wrlock pthread_cond_wait \
            pthread_cond_broadcast sched_yield sched_getaffinity getrandom random rand fork waitpid \
            kill poll ppoll select preadv pwritev2 fdatasync fsync; do
            printf '\tint err = a ? b : -%s(x);\n' "$call"
        done
    } >gpu/host/bad.c
    echo 'fork();' >boot/appliance/bad.c
    rm nvme/dma/hostmem.c
    want=$(($(wc -l <gpu/host/bad.c) + 2))
    got=$(check | wc -l) || true
    cd - >/dev/null
    rm -rf "$tree"
    [ "$got" = "$want" ] || { echo "seam.sh: finds $got of $want mistakes" >&2; exit 1; }
}

prove
cd "${1:-.}"
check
