#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# make install: programs in C and Python find what a consumer of a tap needs; make uninstall.
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

# makes TARGET [VARIABLES]: without the variables of a make around this test; nothing is built
makes() {
    env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS make --no-print-directory O="${HEADRACE%/*}" NVCC= \
        DESTDIR="$root" PREFIX=/opt/headrace "$@"
}

modules=opt/headrace/lib/python$(PATH=/usr/bin:$PATH python3 -c \
    'import sys; print("%d.%d" % sys.version_info[:2])')/dist-packages

installs() {
    makes install-files || return 1
    local plugin=''
    [ ! -e "${HEADRACE%/*}/headrace-mpi.so" ] || plugin=./opt/headrace/lib/headrace/headrace-mpi.so
    [ "$(cd "$root" && find . ! -type d ! -path '*/share/doc/*' | sort | tr '\n' ' ')" = "./opt/headrace/bin/headrace \
./opt/headrace/include/headrace/feed.h ./opt/headrace/include/headrace/tap.h ${plugin:+$plugin }./opt/headrace/lib/libheadrace-tap.so \
./opt/headrace/lib/libheadrace-tap.so.0 ./opt/headrace/lib/pkgconfig/headrace-tap.pc \
./$modules/headrace.py ./$modules/headrace_feed.py ./$modules/headrace_store.py \
./opt/headrace/lib/systemd/system/headrace.service " ] || { find "$root"; return 1; }
    cmp "$HEADRACE" "$root/opt/headrace/bin/headrace" &&
        grep -q '^ExecStart=/opt/headrace/bin/headrace boot ' "$root/opt/headrace/lib/systemd/system/headrace.service"
}

# The links of the first page to documents lead to files; the examples are there.
documents() {
    local at=$root/opt/headrace/share/doc/headrace link
    while read -r link; do
        [ -f "$at/$link" ] || [[ $link == tests/* ]] || { echo "not installed: $link"; return 1; }
    done < <(grep -oE '\]\([A-Za-z_/]+\.(md|svg|conf)' README.md | cut -c3-)
    cmp config/demo.conf "$at/config/demo.conf" && cmp config/examples/bfs.conf "$at/config/examples/bfs.conf"
}

# Debian's python3 searches the folder below the default prefix; a folder of another root cannot be on its path.
found_by_python() {
    makes install-files DESTDIR="$root/default" PREFIX=/usr/local >/dev/null || return 1
    local folder
    folder=$(dirname "$(find "$root/default" -name headrace.py)")
    /usr/bin/python3 -c 'import sys; sys.exit(sys.argv[1] not in sys.path)' "${folder#"$root/default"}" ||
        { echo "not on the path of python3: $folder"; return 1; }
    rm -r "${root:?}/default"
}

# Files and folders of others stay.
uninstalls() {
    local others=("./$modules/other.py" ./opt/headrace/include/other.h ./opt/headrace/share/doc/headrace/mine)
    (cd "$root" && touch "${others[@]}") && python3 -m compileall -q "$root/$modules" && makes uninstall || return 1
    (cd "$root" && find . ! -type d ! -name 'other.*.pyc' | sort) >"$SCRATCH/left"
    printf '%s\n' "${others[@]}" | sort | cmp - "$SCRATCH/left" || { cat "$SCRATCH/left"; return 1; }
    [ ! -e "$root/opt/headrace/include/headrace" ] || { echo "a folder is left"; return 1; }
    makes uninstall # again: nothing to do
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
    consumes env -u HEADRACE_TAP_LIBRARY PYTHONPATH="$root/$modules" \
        python3 -B -c 'import headrace; print(sum(tile.shape == (1024, 8) for tile in headrace.tap("t")), "tiles")'
}

check "the files are installed" installs
check "documents and examples are installed, and links lead to them" documents
if [ -x /usr/bin/python3 ]; then check "Debian's python3 finds the modules" found_by_python
else skip "there is no /usr/bin/python3" "Debian's python3 finds the modules"; fi
if command -v pkg-config >/dev/null; then check "pkg-config knows the library" flags
else skip "there is no pkg-config" "pkg-config knows the library"; fi
check "a program in C is a consumer" in_c
check "a program in Python is a consumer" in_python
check "uninstall removes what install has put there" uninstalls
done_testing
