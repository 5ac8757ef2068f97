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

#include "boot/engine/pass.h"
#include "gpu/tap/client/tap.h"
#include "gpu/tap/protocol.h"
#include "tests/fuzz/server.h"

#define SLOTS 4u
#define RING 4u
#define PAGE 4096u

/* ---- the other side */

static void send_welcome(int fd, struct input *in)
{
	struct hr_tap_message m = { .magic = HR_TAP_MAGIC, .kind = HR_TAP_WELCOME, .credits = 2 };
	struct {
		struct hr_tap_head head;
		struct hr_tap_entry entry[RING];
	} ring = { .head = { .magic = HR_TAP_MAGIC, .state = HR_TAP_RUNS } };
	const uint8_t how = take(in);
	int fds[HR_TAP_FDS];

	m.version_least = m.version = HR_TAP_VERSION;
	m.slots = SLOTS;
	m.ring = RING;
	m.tiles = SLOTS;
	m.stride = m.tile_bytes = PAGE;
	for (uint32_t i = 0; i < RING; i++)
		ring.entry[i] = (struct hr_tap_entry){
			.tile = i, .slot = i, .gen = 1, .bytes = PAGE, .sequence = i + 1
		};
	change(in, &m, sizeof m);
	change(in, &ring, sizeof ring);
	fds[0] = memory(how & 4 ? PAGE : SLOTS * PAGE, "tile", 4);
	fds[1] = memory(how & 8 ? 64 : PAGE, &ring, how & 8 ? 64 : sizeof ring);
	fds[2] = memory(how & 16 ? 0 : PAGE, "", 0);
	hr_pass_send(fd, &m, how & 32 ? sizeof m / 2 : sizeof m, fds, HR_TAP_FDS - how % 4);
	for (unsigned i = 0; i < HR_TAP_FDS; i++)
		close(fds[i]);
}

static void *serve(void *context)
{
	struct input *in = &server.in;
	const int fd = accept4(server.fd, NULL, NULL, SOCK_CLOEXEC);
	struct hr_tap_message m = { 0 };

	must(fd >= 0 && recv(fd, &m, sizeof m, 0) == sizeof m);
	must(m.magic == HR_TAP_MAGIC && m.kind == HR_TAP_HELLO);
	send_welcome(fd, in);
	if (recv(fd, &m, sizeof m, 0) == sizeof m) {
		must(m.kind == HR_TAP_READY);
		m.kind = HR_TAP_END;
		change(in, &m, sizeof m);
		hr_pass_send(fd, &m, in->left % 3 ? sizeof m : 1 + in->left % 200, NULL, 0);
	}
	close(fd);
	return context;
}

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
	must(pthread_create(&thread, NULL, serve, NULL) == 0);
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
