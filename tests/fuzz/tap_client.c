/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/fuzz/tap_client.c - the client library of taps against an arbitrary other side of its
 * socket.
 *
 * The input changes bytes of a WELCOME that is valid, then bytes of the entries of a valid ring,
 * and says how many descriptors come, how large the memory is, and which messages follow. Whatever
 * the other side sends: tiles lie in the memory that is mapped and can be read, and no descriptor
 * is left.
 */
#include <pthread.h>

#include "gpu/tap/client/tap.h"
#include "gpu/tap/protocol.h"
#include "tests/fuzz/server.h"

static struct side side = { HR_TAP_HELLO, HR_TAP_WELCOME, HR_TAP_VERSION };

/* ---- the consumer */

static void read_tile(const struct hr_tap_info *info, const struct hr_tap_tile *tile)
{
	const volatile uint8_t *data = tile->data;
	const uint8_t *from = info->memory;

	must((const uint8_t *)tile->data >= from &&
	     (uint64_t)((const uint8_t *)tile->data - from) + tile->bytes <= info->memory_bytes);
	if (tile->bytes)
		must(data[0] + data[tile->bytes - 1] <= 510);
}

static void consume(struct hr_tap *tap)
{
	const struct hr_tap_info *info = hr_tap_info(tap);
	struct hr_tap_tile tile[3];
	int n;

	must(strnlen(info->dtype, 8) < 8 && strnlen(info->pipeline, 64) < 64);
	while ((n = hr_tap_next(tap, tile, 3, -1)) > 0) {
		for (int i = 0; i < n; i++) {
			read_tile(info, &tile[i]);
			must(hr_tap_done(tap, &tile[i]) == 0);
		}
	}
	must(strlen(hr_tap_reason(tap)) < HR_TAP_REASON);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct hr_tap_options options = { 0 };
	struct hr_tap *tap;
	char why[HR_TAP_REASON] = "";
	unsigned before;
	pthread_t thread;

	if (!server.fd)
		set_up("t.tap");
	before = descriptors();
	options.directory = server.directory;
	options.wait_ms = 20; /* it connects again when the other side hangs up */
	server.in = (struct input){ data, bytes };
	must(pthread_create(&thread, NULL, serve, &side) == 0);
	if (hr_tap_open("t", &options, &tap, why, sizeof why) == 0) {
		consume(tap);
		hr_tap_close(tap);
	} else {
		must(*why);
	}
	must(pthread_join(thread, NULL) == 0);
	hang_up_rest();
	must(descriptors() == before);
	return 0;
}
