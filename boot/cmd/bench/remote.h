/*
 * boot/cmd/bench/remote.h - `headrace bench --remote`: tiles of host memory from one process to another
 * one over a link (boot/remote/link.h), without pipelines and ssds.
 */
#ifndef BOOT_CMD_BENCH_REMOTE_H
#define BOOT_CMD_BENCH_REMOTE_H

#include <stdbool.h>
#include <stdint.h>

/* The options. 0 or NULL: not given. */
struct hr_bench_remote {
	const char *address; /* "A.B.C.D:PORT"; NULL: no such bench */
	const char *key;     /* file with the key of both sides */
	bool receive;	     /* listen, and take tiles */
	bool json;
	uint32_t tile_bytes, slots;
	uint32_t depth, tiles; /* the sender's */
	double seconds;	       /* the sender's, without `tiles` */
};

/*
 * Connect both sides, send or take tiles, and print what was measured. Returns an enum hr_exit; errors
 * are printed. SIGINT and SIGTERM end both sides.
 */
int hr_bench_remote(const struct hr_bench_remote *request);

#endif
