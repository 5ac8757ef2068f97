/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mailboxes between gpus that delay messages, and a mailbox that loses a message. A thread of the
 * test carries the messages from mailboxes of its own to those of the receivers.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "cache/objects/objects.h"
#include "cache/peers.h"
#include "config/base/clock.h"
#include "config/base/log.h"
#include "tests/fakes/clock.h"
#include "tests/harness/access_rig.h"
#include "tests/harness/random.h"

#define TIMEOUT_NS (20 * HR_NS_PER_S)
#define PAGES 24u
#define ROUNDS 4u
#define RUNS_MAX 40u

/* A controller may read a frame that a worker writes to; the page is written again then. The thread
 * sanitizer reports this, so its builds use staging memory. */
#ifdef __SANITIZE_THREAD__
#define STAGING true
#else
#define STAGING false
#endif

TestSuite(io_peers_faults, .timeout = 120);

static struct access_rig rig;

/* Carries messages from one gpu to another. */
struct carrier {
	struct hr_mailbox box, *to;
	uint64_t in[HR_PEER_RINGS], out[HR_PEER_RINGS];
	uint32_t wait[HR_PEER_RINGS]; /* rounds until the next message is delivered */
};

static struct carrier carrier[2][2];
static struct fake_random delays;
static uint32_t delay_most;
static enum hr_peer_kind lost; /* the first message of this kind is lost */
static uint32_t lost_from;     /* the gpu that sends that message */
static bool ends;
static uint32_t idle_rounds; /* since the last message */
static pthread_t thread;

/* Far more than delay_most: gpus wait for a lost message, or work. */
#define IDLE_ROUNDS_MAX 1000u

static void carry_message(struct carrier *c, uint32_t from, uint32_t ring)
{
	const uint64_t ticket = c->in[ring];
	uint64_t entry = __atomic_load_n(hr_peer_entry(&c->box, ring, ticket), __ATOMIC_ACQUIRE);

	if (entry >> HR_PEER_LAP_SHIFT != HR_PEER_LAP(ring, ticket))
		return;
	if (c->wait[ring]) {
		c->wait[ring]--;
		return;
	}
	idle_rounds = 0;
	c->in[ring]++;
	c->wait[ring] = fake_random_below(&delays, delay_most + 1);
	if (hr_peer_unpack(entry).kind == lost && from == lost_from) {
		lost = HR_PEER_NOTHING;
		return;
	}
	entry = (entry & (((uint64_t)1 << HR_PEER_LAP_SHIFT) - 1)) | HR_PEER_LAP(ring, c->out[ring])
									     << HR_PEER_LAP_SHIFT;
	__atomic_store_n(hr_peer_entry(c->to, ring, c->out[ring]++), entry, __ATOMIC_RELEASE);
}

static void *carry(void *unused)
{
	while (!__atomic_load_n(&ends, __ATOMIC_ACQUIRE)) {
		for (uint32_t i = 0; i < 4; i++) {
			struct carrier *c = &carrier[i / 2][i % 2];

			for (uint32_t ring = 0; c->to && ring < HR_PEER_RINGS; ring++) {
				carry_message(c, i / 2, ring);
				__atomic_store_n(
					&c->to->taken[ring],
					__atomic_load_n(&c->box.taken[ring], __ATOMIC_ACQUIRE),
					__ATOMIC_RELEASE);
			}
			if (c->to)
				__atomic_store_n(&c->to->done,
						 __atomic_load_n(&c->box.done, __ATOMIC_ACQUIRE),
						 __ATOMIC_RELEASE);
		}
		/* all threads would take all CPUs until the deadline of a lost message */
		fake_clock_rest(++idle_rounds > IDLE_ROUNDS_MAX ? HR_NS_PER_MS / 2 : 0);
		hr_yield();
	}
	fake_clock_rest(0);
	return unused;
}

/* Put the carriers between two gpus. */
static void put_carriers(struct access_rig *r)
{
	memset(carrier, 0, sizeof carrier);
	delays = (struct fake_random){ r->seed + 7 };
	ends = false;
	idle_rounds = 0;
	for (uint32_t from = 0; from < 2; from++) {
		struct hr_peer *peer = &r->gpu[from]->cache.peers->gpu[1 - from];

		carrier[from][1 - from].to = peer->to;
		peer->to = &carrier[from][1 - from].box;
	}
	cr_assert_eq(pthread_create(&thread, NULL, carry, NULL), 0);
}

static const struct access_work work = {
	.objects = 1,
	.bytes = { PAGES * 4096 },
	.writable = 1,
	.frames = 28,
	.compute = 2,
	.staging = STAGING,
	.gpus = 2,
};

static void run(const struct access_work *of, void (*op)(struct hr_objects *objects))
{
	access_up(&rig, 1, "lba=512", NULL, 64, TIMEOUT_NS);
	rig.wired = put_carriers;
	rig.op.run = op;
	access_start(&rig, of);
	access_wait(&rig);
	__atomic_store_n(&ends, true, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
}

/* In each round all workers write one element each of all pages, and then look at all elements. */
static void write_in_rounds(struct hr_objects *objects)
{
	const struct hr_object *o = hr_get_object_map(objects, 0);

	for (uint64_t round = 1; round <= ROUNDS && !objects->error; round++) {
		for (uint32_t p = 0; p < PAGES; p++)
			hr_set_u64(objects, o, p * 512 + objects->worker, round * 1000 + p);
		(void)hr_workers_sync(objects);
		for (uint32_t p = 0; p < PAGES && !objects->error; p++)
			for (uint32_t i = 0; i < objects->workers; i++) {
				const uint64_t value = hr_get_u64(objects, o, p * 512 + i);

				if (!objects->error && value != round * 1000 + p)
					cr_assert_fail("round %llu, page %u: %llu",
						       (unsigned long long)round, p,
						       (unsigned long long)value);
			}
		(void)hr_workers_sync(objects);
	}
}

/* The ssd has what the last round has written. */
static void check_disk(void)
{
	for (uint32_t p = 0; p < PAGES; p++)
		for (uint32_t i = 0; i < 4; i++)
			((uint64_t *)(void *)rig.model[0])[p * 512 + i] = ROUNDS * 1000 + p;
	access_check_disk(&rig, 0);
}

Test(io_peers_faults, delayed_messages_lose_no_write)
{
	const struct hr_failure *failure;

	delay_most = 30;
	lost = HR_PEER_NOTHING;
	run(&work, write_in_rounds);
	failure = access_failure(&rig);
	cr_expect_null(failure, "%d", failure ? failure->error : 0);
	check_disk();
	access_down(&rig);
}

/*
 * Gpu 1 sends an answer that gpu 0, the home, does not get. A run can end well without that answer:
 * on a busy machine a gpu may write its pages back before they are asked for, and a page that a
 * worker reads in the frame of the other gpu is copied later, or not at all. Then the data are right,
 * and there is another run.
 */
static void lose(enum hr_peer_kind kind)
{
	struct access_work impatient = work;
	const struct hr_failure *failure = NULL;

	impatient.peer_timeout_ns = 3 * HR_NS_PER_S;
	delay_most = 0;
	lost_from = 1;
	for (uint32_t i = 0; i < RUNS_MAX; i++) {
		lost = kind;
		run(&impatient, write_in_rounds);
		failure = access_failure(&rig);
		if (failure)
			break;
		check_disk();
		access_down(&rig);
	}
	cr_assert_not_null(failure, "no run of %u has waited for the answer", RUNS_MAX);
	cr_expect_eq(lost, HR_PEER_NOTHING);
	cr_expect_eq(failure->error, -ETIMEDOUT, "%d", failure->error);
	cr_expect_eq(failure->peer, 2, "%u", failure->peer);
	cr_expect(failure->tile < PAGES || failure->tile == HR_NO_TILE);
	access_down(&rig);
}

Test(io_peers_faults, a_lost_answer_to_fill_or_copy_names_the_gpu)
{
	lose(HR_PEER_FILLED);
}

Test(io_peers_faults, a_lost_answer_to_clean_names_the_gpu)
{
	lose(HR_PEER_CLEANED);
}
