#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Machines whose CUDA driver is missing, too old, broken or without a GPU: one line each, exit code
# 3, and `auto` uses the host backend instead. The drivers are made here: a library with the
# driver's name. Environment: HEADRACE, the binary under test; SCRATCH, an empty folder.
set -uo pipefail
# shellcheck source=tests/cli/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"

for device in cuda:0 auto; do
    cat >"$SCRATCH/$device.conf" <<CONF
ssds = ( { name = "s"; device = "soft:memory,size=64M"; objects = ( { name = "o"; bytes = "1M"; } ); } );
gpus = ( { name = "g"; device = "$device"; } );
pipelines = ( { name = "p"; source = { object = "o"; }; operator = "crc32c"; } );
CONF
done

# Make a driver from the C code on standard input, in a folder of that name.
driver() {
    mkdir -p "$SCRATCH/$1"
    gcc -shared -fPIC -o "$SCRATCH/$1/libcuda.so.1" -x c -
}

with() {
    LD_LIBRARY_PATH="$SCRATCH/$1" exits "${@:2}"
}

# One line names the gpu, its line in the file and the reason.
refused() {
    with "$1" 3 run "$SCRATCH/cuda:0.conf" && warns "cuda:0.conf:2: gpu 'g': cuda:0: $2" &&
        [ "$(grep -c "error:" "$SCRATCH/err")" -eq 1 ]
}

# The choice and its reason are printed with the results.
goes_on() {
    with "$1" 0 run "$SCRATCH/auto.conf" && silent && says "gpu g: auto: $2" &&
        says "worker blocks run on the" && with "$1" 0 run "$SCRATCH/auto.conf" --json && silent &&
        json 'len(r["gpus"]) == 1 and r["gpus"][0]["device"] == "auto"' &&
        json 'r["gpus"][0]["backend"].startswith("host:")' &&
        json 'r["gpus"][0]["note"].startswith("auto: ")'
}

driver empty </dev/null
driver lacking <<'C'
int cuGetProcAddress_v2(const char *name, void **f, int v, unsigned long flags, int *found)
{
    *found = 1;
    return 500;
}
C

# A driver of version $2 whose calls all return $3.
failing() {
    driver "$1" <<C
#include <string.h>
static int version(int *v) { *v = $2; return 0; }
static int text(int e, const char **t) { *t = e == 100 ? "CUDA_ERROR_NO_DEVICE" : "?"; return 0; }
static int any(void) { return $3; }
int cuGetProcAddress_v2(const char *name, void **f, int v, unsigned long flags, int *found)
{
    *f = strcmp(name, "cuDriverGetVersion") == 0 ? (void *)version
        : strncmp(name, "cuGetError", 10) == 0 ? (void *)text : (void *)any;
    *found = 0;
    return 0;
}
C
}
failing old 11080 999
failing none 99000 100
driver broken <<<'int nowhere(void); int somewhere(void) { return nowhere(); }'

# A binary without the cuda backend searches for no driver, and reports that the backend is missing.
lacking="this build has no cuda backend: it was made without nvcc, or is the static one"
without_backend() {
    for command in check run; do
        exits 3 $command "$SCRATCH/cuda:0.conf" &&
            warns "cuda:0.conf:2: gpu 'g': cuda:0: $lacking; or use host:CPUS or auto" &&
            [ "$(wc -l <"$SCRATCH/err")" -eq 1 ] || return 1
    done
    with none 3 post "$SCRATCH/cuda:0.conf" && says "cuda:0: $lacking" && refused none "$lacking"
}

with_driver() { check "$@"; }
exits 3 check "$SCRATCH/cuda:0.conf"
if warns "$lacking" >"$SCRATCH/said"; then
    check "a build without the cuda backend reports the lack" without_backend
    check "auto uses the host backend in a build without the cuda backend" goes_on none "$lacking"
    with_driver() { skip "$lacking" "$1"; }
fi
old="libcuda.so.1: no cuGetProcAddress_v2"
with_driver "a driver without cuGetProcAddress_v2 is too old" refused empty "$old"
with_driver "auto uses the host backend with a driver without cuGetProcAddress_v2" goes_on empty "$old"
with_driver "a driver without a required function is reported with the function" \
    refused lacking "the NVIDIA driver lacks cuInit of CUDA 2.0"
old="the NVIDIA driver is of CUDA 11.8, but this build needs "
with_driver "a driver that is too old is reported with both versions" refused old "$old"
with_driver "auto uses the host backend with a driver that is too old" goes_on old "$old"
none="cuInit: CUDA_ERROR_NO_DEVICE: CUDA_ERROR_NO_DEVICE"
with_driver "a driver without a GPU is reported" refused none "$none"
with_driver "auto uses the host backend with a driver without a GPU" goes_on none "$none"
with_driver "a driver that cannot be loaded is reported with the loader's text" refused broken \
    "$SCRATCH/broken/libcuda.so.1: undefined symbol: nowhere; install the NVIDIA driver"
# The remedy of each error of cuInit.
remedies() {
    local code text
    while read -r code text; do
        failing "code$code" 99000 "$code" && refused "code$code" "cuInit: ?: ?; $text" || return 1
    done <<'CODES'
34 this libcuda.so.1 is the stub of the CUDA toolkit: take its folder out of LD_LIBRARY_PATH
46 another process has the GPU for itself, or its compute mode permits none: 'nvidia-smi -q -d COMPUTE' shows
802 a machine with NVSwitches needs nvidia-fabricmanager, of the driver's version, and running
803 libcuda.so.1 and the loaded kernel module are of different versions: reboot after an update
804 the cuda-compat library does not support this GPU: install a newer driver
999 load the module nvidia_uvm
CODES
}
with_driver "errors of the driver come with what to do" remedies

# A driver that is not ready before $SCRATCH/ready exists, and then has a GPU of no capability. A process to which
# it was not ready once does not see it ready, as with some drivers.
driver late <<C
#include <string.h>
#include <unistd.h>
static int version(int *v) { *v = 99000; return 0; }
static int text(int e, const char **t) { *t = e == 802 ? "CUDA_ERROR_SYSTEM_NOT_READY" : "?"; return 0; }
static int init(int flags) { static int was = -1; return was = was > 0 ? was : access("$SCRATCH/ready", F_OK) ? 802 : 0; }
static int count(int *n) { *n = 1; return 0; }
static int any(void) { return 0; }
int cuGetProcAddress_v2(const char *name, void **f, int v, unsigned long flags, int *found)
{
    *f = strcmp(name, "cuDriverGetVersion") == 0 ? (void *)version
        : strcmp(name, "cuInit") == 0 ? (void *)init
        : strcmp(name, "cuDeviceGetCount") == 0 ? (void *)count
        : strncmp(name, "cuGetError", 10) == 0 ? (void *)text : (void *)any;
    *found = 0;
    return 0;
}
C
# waiting WAIT_S DEVICE: pipeline p needs that gpu, pipeline q does not
waiting() {
    rm -f "$SCRATCH/ready"
    cat >"$SCRATCH/x.conf" <<CONF
ssds = ( { name = "s"; device = "soft:memory,size=64M"; objects = ( { name = "o"; bytes = "1M"; } ); } );
gpus = ( { name = "g"; device = "$2"; }, { name = "h"; device = "host:1"; } );
boot = { post = "off"; restarts = 0; wait_s = $1; };
pipelines = ( { name = "p"; gpu = "g"; source = { object = "o"; }; operator = "crc32c"; },
  { name = "q"; gpu = "h"; source = { object = "o"; }; operator = "crc32c"; } );
CONF
}
export SCRATCH
service() {
    LD_LIBRARY_PATH="$SCRATCH/$1" python3 "$(dirname "$0")/lib/service.py" "$HEADRACE" "$SCRATCH/x.conf" "${@:2}" ||
        { cat "$SCRATCH/boot.err"; return 1; }
}
told() { grep -qF -- "$1" "$SCRATCH/boot.err" || { cat "$SCRATCH/boot.err"; return 1; }; }
not_ready="gpu 'g': cuda:0: cuInit: CUDA_ERROR_SYSTEM_NOT_READY: CUDA_ERROR_SYSTEM_NOT_READY; "
awaits() {
    waiting 86400 cuda:0 && service late until=running "until=going down" until=waiting \
        "sh=grep -q '^q .*done' $SCRATCH/boot.out" "sh=touch $SCRATCH/ready" exit=3 &&
        told "$not_ready" && told "waiting for it for 86400 s" &&
        told "gpu 'g': cuda:0:  : compute capability 0.0, needs 8.0 or later" && ! told "restart 1" >/dev/null
}
with_driver "boot waits for a driver that is not ready, and runs what does not need the GPU" awaits
stops() { waiting 86400 cuda:0 && service late until=waiting signal=TERM exit=0; }
with_driver "SIGTERM during the wait for a GPU is an orderly stop" stops
gives_up() { waiting 1 cuda:0 && service late exit=3 && told "$not_ready" && told "waiting for it for 1 s"; }
with_driver "boot waits for a GPU no longer than wait_s" gives_up
none_yet() { waiting 86400 cuda:0 && service none until=waiting signal=TERM exit=0 && told "$none"; }
with_driver "boot waits for a GPU that the driver does not find" none_yet
no_wait() { waiting 86400 auto && sed -i 's/"q"; gpu = "h"/"q"; gpu = "g"/' "$SCRATCH/x.conf" && service none exit=0; }
with_driver "boot does not wait for a GPU that auto does without" no_wait
auto_waits() { waiting 86400 auto && service late until=waiting signal=TERM exit=0 && told "gpu 'g': auto: cuInit: "; }
with_driver "boot waits for a driver that is not ready before auto chooses" auto_waits
done_testing
