#!/bin/bash
# make install: programs in C and Python find what a consumer of a tap needs.
set -uo pipefail
# shellcheck source=tests/cli/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"

root=$SCRATCH/root
cat >"$SCRATCH/x.conf" <<CONF
ssds = ( { name = "a"; device = "soft:memory,size=32M"; timeout_ms = 60000;
           objects = ( { name = "in"; bytes = "4M"; } ); } );
gpus = ( { name = "g"; device = "host:2"; } );
pipelines = ( { name = "lend"; source = { object = "in"; }; operator = "copy"; tile = "64K";
                sink = { tap = "t"; dtype = "u64"; columns = 8; }; } );
CONF
cat >"$SCRATCH/count.c" <<'C'
#include <headrace/tap.h>
#include <stdio.h>

/* Nothing is allocated for a tile. */
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
static int trapped, caught;

void *malloc(size_t bytes)
{
	caught += trapped;
	return __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
	caught += trapped;
	return __libc_calloc(count, bytes);
}

int main(void)
{
	struct hr_tap *tap;
	struct hr_tap_tile tile;
	char why[HR_TAP_REASON];
	int tiles = 0, n;

	if (hr_tap_open("t", NULL, &tap, why, sizeof why) != 0) {
		puts(why);
		return 1;
	}
	trapped = 1;
	for (; (n = hr_tap_next(tap, &tile, 1, -1)) == 1; tiles++)
		hr_tap_done(tap, &tile);
	trapped = 0;
	hr_tap_close(tap);
	if (caught)
		printf("%d allocations, ", caught);
	printf("%d tiles\n", tiles);
	return n != 0;
}
C

installs() {
    # without the variables of a make around this test: nothing is built
    env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS make --no-print-directory O="${HEADRACE%/*}" NVCC= \
        DESTDIR="$root" PREFIX=/opt/headrace install-files || return 1
    local plugin=''
    [ ! -e "${HEADRACE%/*}/headrace-mpi.so" ] || plugin=./opt/headrace/lib/headrace/headrace-mpi.so
    [ "$(cd "$root" && find . ! -type d | sort | tr '\n' ' ')" = "./opt/headrace/bin/headrace \
./opt/headrace/include/headrace/feed.h ./opt/headrace/include/headrace/tap.h ${plugin:+$plugin }./opt/headrace/lib/libheadrace-tap.so \
./opt/headrace/lib/libheadrace-tap.so.0 ./opt/headrace/lib/pkgconfig/headrace-tap.pc \
./opt/headrace/lib/python3/dist-packages/headrace.py \
./opt/headrace/lib/python3/dist-packages/headrace_feed.py \
./opt/headrace/lib/python3/dist-packages/headrace_store.py " ] || { find "$root"; return 1; }
    cmp "$HEADRACE" "$root/opt/headrace/bin/headrace"
}

flags() {
    [ "$(PKG_CONFIG_LIBDIR=$root/opt/headrace/lib/pkgconfig pkg-config --cflags --libs headrace-tap |
        tr -s ' ' | sed 's/ $//')" = "-I/opt/headrace/include -L/opt/headrace/lib -lheadrace-tap" ]
}

# consumes COMMAND...: it gets all tiles of a run
consumes() {
    local run got
    setpriv --pdeathsig KILL "$HEADRACE" run "$SCRATCH/x.conf" >/dev/null 2>"$SCRATCH/err" </dev/null &
    run=$!
    until_true 60 test -S "$SCRATCH/run/t.tap" || return 1
    if ! got=$(timeout 200 "$@" 2>&1) || ! wait "$run" || [ "$got" != "64 tiles" ]; then
        echo "$got"
        return 1
    fi
}

in_c() {
    "${CC-cc}" -I"$root/opt/headrace/include" -o "$SCRATCH/count" "$SCRATCH/count.c" \
        -L"$root/opt/headrace/lib" -lheadrace-tap || return 1
    consumes env LD_LIBRARY_PATH="$root/opt/headrace/lib" "$SCRATCH/count"
}

in_python() {
    consumes env -u HEADRACE_TAP_LIBRARY PYTHONPATH="$root/opt/headrace/lib/python3/dist-packages" \
        python3 -B -c 'import headrace; print(sum(tile.shape == (1024, 8) for tile in headrace.tap("t")), "tiles")'
}

check "the files are installed" installs
if command -v pkg-config >/dev/null; then check "pkg-config knows the library" flags
else skip "there is no pkg-config" "pkg-config knows the library"; fi
check "a program in C is a consumer" in_c
check "a program in Python is a consumer" in_python
done_testing
