/* SPDX-License-Identifier: Apache-2.0 */
/* A queue pair against a model that knows only its results, and between two threads. */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/clock.h"
#include "nvme/queue/queue.h"
#include "tests/fakes/clock.h"
#include "tests/fakes/peer.h"
#include "tests/harness/random.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))
#define TIMEOUT_NS 8000u
#define START_NS 1000000u

static struct hr_nvme_qp qp;
static struct peer peer;

static void setup(void)
{
	qprun->up();
}

static void teardown(void)
{
	fake_clock_stop();
	qprun->down();
}

TestSuite(queue_order, .init = setup, .fini = teardown, .timeout = 60);

static int push(uint32_t token)
{
	struct hr_sqe sqe;

	hr_sqe_io(&sqe, nvme_cmd_read, 1, token * 8ull, 8, 0x1000, 0);
	return qprun->push(&qp, true, &sqe, token);
}

struct model {
	struct fake_random random;
	uint32_t entries, pushed, sent, next_token;
	uint64_t completed, failed, dropped;
	bool taken[65536]; /* CIDs pushed and not reaped */
	uint32_t token[65536];
	uint16_t old[16]; /* recently completed CIDs */
	uint32_t olds;
};

static struct model model;

static void check_invariants(void)
{
	const uint32_t commands = model.entries - 1, outstanding = model.pushed + model.sent;
	bool seen[PEER_ENTRIES_MAX] = { false };
	uint32_t taken = 0;

	cr_assert_eq(qp.error, 0);
	cr_assert_eq(hr_qp_outstanding(&qp), outstanding);
	cr_assert_eq(hr_qp_free_commands(&qp), commands - outstanding);
	cr_assert_eq(qp.stats.completed, model.completed);
	cr_assert_eq(qp.stats.failed, model.failed);
	if (qprun->looks_idle)
		cr_assert_eq(qp.stats.late + qp.stats.stray, model.dropped);
	else /* some completions may still be in the ring */
		cr_assert_leq(qp.stats.late + qp.stats.stray, model.dropped);
	cr_assert_eq(qp.stats.submitted, model.completed + model.sent);
	for (uint32_t i = qp.free_head; i != qp.free_tail; i++) {
		const uint32_t index = qp.free_ring[i & qp.index_mask] & qp.index_mask;

		cr_assert(index < commands && !seen[index], "index %u free twice", index);
		cr_assert_eq(qp.inflight[index].state, HR_CMD_FREE);
		seen[index] = true;
	}
	for (uint32_t i = 0; i < commands; i++)
		taken += qp.inflight[i].state != HR_CMD_FREE;
	cr_assert_eq(taken, outstanding);
}

static void model_push(void)
{
	const int cid = push(model.next_token);

	if (model.pushed + model.sent == model.entries - 1) {
		cr_assert_eq(cid, -EAGAIN);
		return;
	}
	cr_assert_geq(cid, 0);
	cr_assert(!model.taken[cid], "CID %x is in use", cid);
	model.taken[cid] = true;
	model.token[cid] = model.next_token++;
	model.pushed++;
}

static void model_ring(void)
{
	qprun->ring(&qp);
	model.sent += model.pushed;
	model.pushed = 0;
	cr_assert_eq(peer.sq_doorbell, qp.sq_tail);
}

static void model_reaped(const struct hr_completion *done)
{
	cr_assert(model.taken[done->cid], "CID %x was not in flight", done->cid);
	cr_assert_eq(done->token, model.token[done->cid]);
	cr_assert_eq(done->dw0, qprun->has_dw0 ? ~(done->token * 8) : 0);
	model.taken[done->cid] = false;
	model.old[model.olds++ % ROWS(model.old)] = done->cid;
	model.completed++;
	model.failed += done->status != 0;
	model.sent--;
}

static void model_reap(void)
{
	struct hr_completion done;
	const uint32_t count = qprun->reap(&qp, &done);

	for (uint32_t i = 0; i < count; i++) {
		done = qprun->reaped(i);
		model_reaped(&done);
	}
}

/* Post a completion a second time, or one of an earlier generation of an index. */
static void model_repeat(void)
{
	const uint32_t n = model.olds < ROWS(model.old) ? model.olds : ROWS(model.old);
	const uint16_t cid = n ? model.old[fake_random_below(&model.random, n)] : 0;

	if (!n || model.taken[cid])
		return;
	peer_post(&peer, (struct hr_cqe){ .sqhd = (uint16_t)peer.sq_head, .sqid = 3, .cid = cid });
	model.dropped++;
	/*
	 * Valid completions may precede this one: reap them all, so that the counters are exact
	 * again.
	 */
	for (uint32_t i = 0; i < model.entries; i++)
		model_reap();
}

static void model_complete(void)
{
	const uint32_t pending = peer_fetch(&peer);

	if (pending && peer_can_post(&peer))
		peer_complete(&peer, fake_random_below(&model.random, pending),
			      fake_random_below(&model.random, 4) ? 0 : 0x281);
}

static void drain(void)
{
	model_ring();
	for (uint32_t i = 0; i < 4 * model.entries; i++) {
		model_complete();
		model_reap();
	}
	check_invariants();
	cr_assert_eq(hr_qp_outstanding(&qp), 0u);
}

static void run_model(uint64_t seed, uint32_t entries, uint32_t steps)
{
	memset(&model, 0, sizeof(model));
	model.random.state = seed;
	model.entries = entries;
	peer_init(&peer, &qp, entries, TIMEOUT_NS);
	for (uint32_t i = 0; i < steps; i++) {
		const uint32_t what = fake_random_below(&model.random, 100);

		if (what < 35)
			model_push();
		else if (what < 50)
			model_ring();
		else if (what < 75)
			model_complete();
		else if (what < 97)
			model_reap();
		else if (peer_can_post(&peer))
			model_repeat();
		check_invariants();
	}
	drain();
	peer_fini(&peer);
}

Test(queue_order, any_order_of_completions_over_many_wraps_agrees_with_a_model)
{
	static const uint32_t depth[] = { 2, 3, 4, 5, 7, 8, 16, 33, 64 };
	const uint64_t seed = fake_random_seed("queue_order");

	fake_clock_start(START_NS, NULL, NULL);
	for (size_t i = 0; i < ROWS(depth); i++) {
		run_model(seed + 2 * i, depth[i], 8000);
	}
}

/* Of arbitrary completions, only those of commands in flight are accepted, each once. */
static void post_garbage(void)
{
	const uint32_t pending = peer_fetch(&peer);
	struct hr_cqe cqe = {
		.sqhd = (uint16_t)(fake_random_below(&model.random, 50)
					   ? peer.sq_head
					   : fake_random_below(&model.random, model.entries + 2)),
		.sqid = fake_random_below(&model.random, 100) ? 3 : 4,
		.cid = (uint16_t)fake_random_below(&model.random, 1u << 16),
		.status = (uint16_t)fake_random_below(&model.random, 1u << 16),
	};

	if (pending && fake_random_below(&model.random, 3))
		cqe.cid = peer.pending[fake_random_below(&model.random, pending)].cid;
	else if (fake_random_below(&model.random, 50))
		cqe.cid &= (uint16_t) ~(qp.index_mask / 2 + 1); /* keeps the index in the table */
	if (peer_can_post(&peer))
		peer_post(&peer, cqe);
}

static void garbage_reaped(const struct hr_completion *done)
{
	cr_assert(model.taken[done->cid], "CID %x was not in flight", done->cid);
	cr_assert_eq(done->token, model.token[done->cid]);
	model.taken[done->cid] = false;
	model.sent--;
	model.completed++;
	for (uint32_t i = 0; i < peer.fetched; i++)
		if (peer.pending[i].cid == done->cid)
			peer.pending[i--] = peer.pending[--peer.fetched];
}

static void reap_garbage(void)
{
	struct hr_completion done;
	const uint32_t count = qprun->reap(&qp, &done);

	for (uint32_t i = 0; i < count; i++) {
		done = qprun->reaped(i);
		garbage_reaped(&done);
	}
}

Test(queue_order, garbage_is_dropped_or_breaks_the_queue)
{
	const uint64_t seed = fake_random_seed("queue_order");
	uint32_t broken = 0, credited = 0;

	fake_clock_start(START_NS, NULL, NULL);
	for (uint32_t life = 0; life < 300; life++) {
		memset(&model, 0, sizeof(model));
		model.random.state = seed + 2 * life;
		model.entries = 2 + fake_random_below(&model.random, 40);
		peer_init(&peer, &qp, model.entries, TIMEOUT_NS);
		for (uint32_t i = 0; i < 300 && !qp.error; i++) {
			model_push();
			model_ring();
			post_garbage();
			reap_garbage();
			cr_assert_eq(hr_qp_outstanding(&qp), model.sent);
			cr_assert_eq(qp.stats.completed, model.completed);
		}
		broken += qp.error == -EPROTO;
		credited += model.completed > 0;
		peer_fini(&peer);
	}
	cr_expect(broken > 100 && credited > 100, "%u broken, %u credited", broken, credited);
}

/* ---- two threads */

#define THREAD_COMMANDS 20000u

static void *controller(void *unused)
{
	uint32_t done = 0, spins = 0;

	while (done < THREAD_COMMANDS) {
		if (!peer_fetch(&peer))
			hr_idle(&spins);
		while (peer.fetched && peer_can_post(&peer)) {
			peer_complete(&peer, peer.fetched - 1, 0);
			done++;
			spins = 0;
		}
	}
	return NULL;
}

Test(queue_order, no_doorbell_is_lost_between_two_threads)
{
	const uint64_t give_up = 30 * HR_NS_PER_S;
	uint32_t sent = 0, reaped = 0, spins = 0, got;
	uint64_t start;
	pthread_t thread;
	struct hr_completion done;

	start = hr_now_ns();
	peer_init(&peer, &qp, 8, give_up);
	cr_assert_eq(pthread_create(&thread, NULL, controller, NULL), 0);
	while (reaped < THREAD_COMMANDS && hr_now_ns() - start < give_up) {
		while (sent < THREAD_COMMANDS && push(sent) >= 0)
			sent++;
		qprun->ring(&qp);
		got = qprun->reap(&qp, &done);
		reaped += got;
		if (got)
			spins = 0;
		else
			hr_idle(&spins);
	}
	cr_assert_eq(reaped, THREAD_COMMANDS, "a doorbell was lost after %u", reaped);
	pthread_join(thread, NULL);
	peer_fini(&peer);
}
