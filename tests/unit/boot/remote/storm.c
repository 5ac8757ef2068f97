/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams between two links by seed: completions and immediates that are lost, late, double or wrong,
 * connections that are cut, calls of the RDMA library that fail, sides that end and come again, and
 * strangers at the port. Whatever happens, each tile arrives with its bytes, once in each run of the
 * receiver, and the end comes after all of them.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "boot/remote/link.h"
#include "tests/harness/link_rig.h"
#include "tests/harness/random.h"

#define S HR_LINK_SENDER
#define R HR_LINK_RECEIVER
#define SEEDS 24u
#define TILES_MAX 120u
#define TILE 40000u /* two segments */
#define DEAD_NS 1000000000ull
#define LIMIT_S 200

enum slot_state { FREE, HELD, MOVES };

static struct link_rig rig;
static struct fake_random rnd;
static uint64_t seed;
static uint64_t tiles;
static uint32_t last_bytes;
static unsigned faults; /* that are left */
static int stranger;	/* a connection that says nothing of use, or -1 */

static struct {
	enum slot_state state;
	uint64_t tile;
} out[RIG_SLOTS], in[RIG_SLOTS]; /* in: HELD is offered */
static bool has[TILES_MAX];	 /* the receiver, in this run */
static uint64_t low;		 /* the first one that it lacks */
static bool end_known, ended, done[2];

static uint32_t below(uint32_t n)
{
	return fake_random_below(&rnd, n);
}

static uint32_t bytes_of(uint64_t tile)
{
	return tile + 1 == tiles ? last_bytes : TILE;
}

static uint64_t word_of(uint64_t tile, uint32_t i)
{
	return (tile + 1) * 0x9e3779b97f4a7c15ull + i;
}

static uint64_t *words(enum hr_link_side side, uint32_t slot)
{
	return (uint64_t *)(void *)(rig.memory[side] + (size_t)slot * RIG_STRIDE);
}

static void fill(enum hr_link_side side, uint32_t slot, uint64_t tile)
{
	for (uint32_t i = 0; i < TILE / 8; i++)
		words(side, slot)[i] = word_of(tile, i);
}

/* The first bytes of the slot are those of the tile. */
static bool holds(uint32_t slot, uint64_t tile, uint32_t bytes)
{
	for (uint32_t i = 0; i < bytes / 8; i++)
		if (words(R, slot)[i] != word_of(tile, i))
			return false;
	return true;
}

static int flush(void *to)
{
	if (!faults || below(300))
		return 0;
	faults--;
	return -EIO;
}

/* ---- the receiver */

/* It runs, and has all tiles before `from`. */
static void begin_receiver(uint64_t from)
{
	rig.setup[R].address = rig.address[0] ? rig.address : "127.0.0.1:0";
	link_rig_open(&rig, R);
	low = from;
	for (uint64_t t = 0; t < tiles; t++)
		has[t] = t < from;
	for (uint32_t s = 0; s < RIG_SLOTS; s++) {
		in[s].state = FREE;
		fill(R, s, TILES_MAX + s);
	}
	ended = done[R] = false;
	hr_link_set_durable(rig.link[R], from);
}

static bool is_offered(uint64_t tile)
{
	for (uint32_t s = 0; s < RIG_SLOTS; s++)
		if (in[s].state == HELD && in[s].tile == tile)
			return true;
	return false;
}

/* The lowest tile without a slot, or one of those behind it; the last free slot is for the lowest. */
static void offer(void)
{
	for (uint32_t s = 0; s < RIG_SLOTS; s++) {
		uint64_t tile = low;

		if (in[s].state != FREE)
			continue;
		if (is_offered(low))
			tile += below(2 * RIG_SLOTS);
		while (tile < tiles && (has[tile] || is_offered(tile)))
			tile++;
		if (tile >= tiles)
			continue;
		cr_assert(holds(s, TILES_MAX + s, TILE),
			  "seed %llu: slot %u was written without an offer",
			  (unsigned long long)seed, s);
		cr_assert_eq(hr_link_offer(rig.link[R], s, tile), 0);
		in[s].state = HELD;
		in[s].tile = tile;
	}
}

static void came(const struct hr_link_event *e)
{
	cr_assert(e->slot < RIG_SLOTS && in[e->slot].state == HELD && in[e->slot].tile == e->tile &&
			  !has[e->tile],
		  "seed %llu: tile %llu comes in slot %u", (unsigned long long)seed,
		  (unsigned long long)e->tile, e->slot);
	cr_assert_eq(e->bytes, bytes_of(e->tile));
	cr_assert(holds(e->slot, e->tile, e->bytes), "seed %llu: tile %llu has other bytes",
		  (unsigned long long)seed, (unsigned long long)e->tile);
	in[e->slot].state = FREE;
	fill(R, e->slot, TILES_MAX + e->slot);
	has[e->tile] = true;
	while (low < tiles && has[low])
		low++;
}

static void receive(const struct hr_link_event *e)
{
	if (e->kind == HR_LINK_RECEIVED)
		came(e);
	if (e->kind == HR_LINK_END) {
		cr_assert(low == tiles && !ended && e->tile == tiles);
		cr_assert_eq(e->total, (tiles - 1) * TILE + last_bytes);
		ended = true;
	}
	if (e->kind == HR_LINK_REMOTE_ENDED)
		cr_expect_eq(e->code, 0);
	cr_assert_neq(e->kind, HR_LINK_FAILED, "seed %llu: %s", (unsigned long long)seed, e->text);
}

/* ---- the sender */

static void begin_sender(void)
{
	link_rig_open(&rig, S);
	memset(out, 0, sizeof out);
	done[S] = end_known = false;
}

static bool is_held(uint64_t tile)
{
	for (uint32_t s = 0; s < RIG_SLOTS; s++)
		if (out[s].state != FREE && out[s].tile == tile)
			return true;
	return false;
}

static void load(uint32_t slot)
{
	uint64_t tile = 0;

	while (tile < tiles && (hr_link_receiver_has(rig.link[S], tile) || is_held(tile)))
		tile++;
	if (tile == tiles)
		return;
	fill(S, slot, tile);
	out[slot].state = HELD;
	out[slot].tile = tile;
}

static void send_held(void)
{
	for (uint32_t s = 0; s < RIG_SLOTS; s++) {
		int err;

		if (out[s].state == FREE)
			load(s);
		if (out[s].state != HELD)
			continue;
		err = hr_link_send(rig.link[S], s, out[s].tile, bytes_of(out[s].tile));
		cr_assert(err == 0 || err == -EALREADY || err == -EAGAIN || err == -ENOTCONN, "%d",
			  err);
		if (err == 0)
			out[s].state = MOVES;
		else if (err == -EALREADY)
			out[s].state = FREE;
	}
	if (!end_known && below(50) == 0) {
		hr_link_end(rig.link[S], tiles, (tiles - 1) * TILE + last_bytes);
		end_known = true;
	}
}

/* The network device is sound from now on. */
static void mend(void)
{
	struct fake_ibverbs *fake = link_rig_fake();

	fake->cut = fake->lose = fake->twice = fake->mangle = fake->fail = fake->fail_call = 0;
	fake->fail_poll = fake->stall = fake->port_down = 0;
}

static void sender_comes_again(void)
{
	mend();
	link_rig_close(&rig, S);
	begin_sender();
}

/* Tiles that it gave back are lost after a fault of the network device, and when the receiver comes
 * again with fewer: another run sends them. */
static void sender_failed(const struct hr_link_event *e)
{
	cr_assert(strstr(e->text, "the receiver has lost tile"), "seed %llu: %s",
		  (unsigned long long)seed, e->text);
	sender_comes_again();
}

static void sent(const struct hr_link_event *e)
{
	if (e->kind == HR_LINK_SENT) {
		cr_assert(e->slot < RIG_SLOTS && out[e->slot].state == MOVES &&
			  out[e->slot].tile == e->tile);
		out[e->slot].state = FREE;
		fill(S, e->slot, 2 * TILES_MAX); /* it may be used again at once */
	}
	for (uint32_t s = 0; e->kind == HR_LINK_DOWN && s < RIG_SLOTS; s++)
		if (out[s].state == MOVES)
			out[s].state = HELD;
	if (e->kind == HR_LINK_REMOTE_ENDED) {
		cr_expect_eq(e->code, 0);
		done[R] = true;
	}
	if (e->kind == HR_LINK_FAILED)
		sender_failed(e);
}

/* ---- the script */

static void knock(void)
{
	const struct sockaddr_in to = { .sin_family = AF_INET,
					.sin_port = htons(hr_link_port(rig.link[R])),
					.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	uint8_t noise[64];

	if (stranger >= 0)
		close(stranger);
	stranger = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (connect(stranger, (const struct sockaddr *)&to, sizeof to) != 0)
		return;
	fake_random_fill(&rnd, noise, sizeof noise);
	if (below(2))
		cr_expect_eq(send(stranger, noise, sizeof noise, MSG_NOSIGNAL),
			     (ssize_t)sizeof noise);
}

static void receiver_comes_again(void)
{
	mend();
	link_rig_close(&rig, R);
	begin_receiver(below(2) ? low : below((uint32_t)low + 1));
}

static void fault(void)
{
	struct fake_ibverbs *fake = link_rig_fake();

	switch (below(13)) {
	case 0:
	case 1:
		fake->cut = 1 + below(12);
		break;
	case 2:
		fake->lose = 1 + below(2);
		break;
	case 3:
		fake->twice = 1 + below(2);
		break;
	case 4:
		fake->mangle = 1;
		break;
	case 5:
		fake->fail = below(2) ? IBV_WC_RNR_RETRY_EXC_ERR : IBV_WC_RETRY_EXC_ERR;
		break;
	case 6:
		fake->fail_call = 1 + below(40);
		break;
	case 7:
		fake->fail_poll = 1;
		break;
	case 8:
		fake->stall = !fake->stall;
		break;
	case 9:
		fake->port_down = !fake->port_down;
		break;
	case 10:
		sender_comes_again();
		break;
	case 11:
		receiver_comes_again();
		break;
	default:
		knock();
	}
}

static void step(void)
{
	if (faults && below(60) == 0 && --faults == 0)
		mend();
	else if (faults && below(120) == 0)
		fault();
	/* back-off, lost completions */
	if (below(3) == 0)
		rig.now_ns += DEAD_NS / RIG_PIECES * below(2);
	offer();
	send_held();
	while (link_rig_step(&rig, R))
		receive(&rig.last[R]);
	while (link_rig_step(&rig, S))
		sent(&rig.last[S]);
}

static void run(void)
{
	const time_t limit = time(NULL) + LIMIT_S;

	while (!ended || faults) {
		step();
		cr_assert(time(NULL) < limit, "seed %llu: no end; %s; %s", (unsigned long long)seed,
			  hr_link_describe(rig.link[S]), hr_link_describe(rig.link[R]));
	}
	hr_link_report_result(rig.link[R], 0, NULL);
	while (!hr_link_both_ended(rig.link[S]) || !hr_link_both_ended(rig.link[R])) {
		step();
		if (done[R])
			hr_link_report_result(rig.link[S], 0, NULL);
		cr_assert(time(NULL) < limit, "seed %llu: the runs do not end",
			  (unsigned long long)seed);
	}
}

static void set_up(uint64_t number)
{
	seed = number;
	rnd.state = number;
	link_rig_again(&rig);
	for (int side = 0; side < 2; side++) {
		rig.setup[side].tile_bytes = TILE;
		rig.setup[side].tiles = TILES_MAX;
		rig.setup[side].depth = 1 + below(RIG_SLOTS);
		rig.setup[side].dead_ns = DEAD_NS;
	}
	rig.setup[R].memory.flush = below(2) ? flush : NULL;
	tiles = 1 + below(TILES_MAX);
	last_bytes = 8 * (1 + below(TILE / 8));
	faults = 1 + below(100);
	stranger = -1;
}

static void tear_down(void)
{
	struct fake_ibverbs *fake = link_rig_fake();

	cr_expect_eq(fake->refused_keys, 0, "seed %llu: a packet reached for other memory",
		     (unsigned long long)seed);
	cr_expect_eq(fake->not_ready, 0, "seed %llu: a tile came without a receive",
		     (unsigned long long)seed);
	if (stranger >= 0)
		close(stranger);
}

static void init(void)
{
	link_rig_init(&rig);
}

static void fini(void)
{
	link_rig_fini(&rig);
}

TestSuite(storm, .init = init, .fini = fini, .timeout = 280);

Test(storm, each_tile_arrives_once_with_its_bytes)
{
	const uint64_t first = fake_random_seed("storm");

	for (uint64_t n = 0; n < SEEDS; n++) {
		set_up(n < SEEDS / 2 ? n + 1 : first + n);
		begin_receiver(0);
		begin_sender();
		run();
		tear_down();
	}
}

/* True: the side opens. */
static bool opens(enum hr_link_side side)
{
	struct hr_error e = { 0 };
	const int err = hr_link_open(&rig.link[side], &rig.setup[side], &e);

	cr_assert(!err || link_rig_fake()->fail_call == 0, "%s", e.text);
	cr_expect_eq(err == 0, e.kind == HR_ERROR_NONE && !e.text[0], "%s", e.text);
	if (err)
		rig.link[side] = NULL;
	else
		link_rig_close(&rig, side);
	return !err;
}

/* Whichever call of the RDMA library fails: an error at the open, or another connection, and nothing
 * is left. */
Test(storm, each_call_of_the_library_may_fail)
{
	unsigned refused = 0, nth = 1;

	for (bool reached = true; reached; nth++) {
		set_up(nth);
		faults = 0;
		tiles = 3;
		link_rig_fake()->fail_call = nth;
		if (!opens(R)) {
			refused++;
		} else {
			link_rig_fake()->fail_call = 0;
			begin_receiver(0);
			begin_sender();
			link_rig_fake()->fail_call = nth - refused;
			run();
			reached = link_rig_fake()->fail_call == 0;
		}
		tear_down();
	}
	cr_expect_geq(refused, 30, "%u", refused);
	cr_expect_geq(nth, refused + 40, "%u", nth);
}
