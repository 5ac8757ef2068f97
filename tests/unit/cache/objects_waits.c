/* cache/objects.h with one lane, function by function: requests, and what each step of a wait does. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "tests/harness/objects_steps_rig.h"

TestSuite(objects_waits, .timeout = 60);

/* ---- requests */

Test(objects_waits, a_request_waits_for_room_in_its_ring)
{
	struct hr_request_ring *ring = &t.ring[1];

	up(0);
	ring->tail = 300;
	ring->taken = 45;
	cr_expect_eq(hr_cache_request_one(&t.objects, ring, 9, HR_REQUEST_WHOLE, false), 300);
	cr_expect_eq(ring->entry[300 - 256], hr_request_entry(300, 9) | HR_REQUEST_WHOLE);
	cr_expect(ring->tail == 301 && t.idles == 0);
	cr_expect_eq(hr_cache_request_one(&t.objects, ring, HR_NO_PAGE, 0, false), HR_NO_TICKET);
	cr_expect_eq(ring->tail, 301);
	/* the run stops before there is room */
	t.words.stop = HR_CACHE_ENDS;
	cr_expect_eq(hr_cache_request_one(&t.objects, ring, 10, 0, false), 301);
	cr_expect_eq(ring->entry[301 - 256], 0);
	cr_expect_eq(ring->tail, 302);
}

static void take_one(uint32_t step)
{
	if (step == 3)
		t.ring[1].taken++;
}

Test(objects_waits, a_request_enters_its_ring_when_there_is_room)
{
	for (uint32_t way = 0; way < 2; way++) {
		struct hr_request_ring *ring = &t.ring[1];
		uint64_t ticket;

		up(0);
		t.step = take_one;
		ring->tail = 256 + 12;
		ring->taken = 12;
		ticket = way ? hr_cache_request(&t.objects, ring, 9, true, HR_REQUEST_WRITE, false)
			     : hr_cache_request_one(&t.objects, ring, 9, HR_REQUEST_WRITE, false);
		cr_expect_eq(ticket, 268);
		cr_expect_eq(t.idles, 3, "%u", t.idles);
		cr_expect_eq(ring->entry[12], hr_request_entry(268, 9) | HR_REQUEST_WRITE);
	}
}

Test(objects_waits, rings_that_are_half_full_get_no_requests_ahead)
{
	static const struct {
		uint64_t used;
		bool patient;
		uint64_t ticket;
	} row[] = { { 128, false, 628 },
		    { 129, false, HR_NO_TICKET },
		    { 129, true, 629 },
		    { 255, true, 755 } };

	for (uint32_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct hr_request_ring *ring = &t.ring[0];
		const bool enters = row[i].ticket != HR_NO_TICKET;

		up(0);
		ring->taken = 500;
		ring->tail = 500 + row[i].used;
		cr_expect_eq(hr_cache_request(&t.objects, ring, 9, row[i].patient, 0, false),
			     row[i].ticket, "row %u", i);
		cr_expect_eq(ring->tail, 500 + row[i].used + enters, "row %u", i);
		cr_expect_eq(ring->entry[row[i].ticket % 256],
			     enters ? hr_request_entry(row[i].ticket, 9) : 0, "row %u", i);
		cr_expect_eq(hr_cache_request(&t.objects, ring, HR_NO_PAGE, true, 0, false),
			     HR_NO_TICKET);
	}
}

Test(objects_waits, flags_of_requests)
{
	up(0);
	cr_expect_eq(hr_request_flags(&t.cache, true, true), HR_REQUEST_WHOLE);
	cr_expect_eq(hr_request_flags(&t.cache, true, false), 0);
	up(2);
	cr_expect_eq(hr_request_flags(&t.cache, true, true), HR_REQUEST_WRITE);
	cr_expect_eq(hr_request_flags(&t.cache, false, true), 0);
	cr_expect(hr_cache_taken(&t.ring[0], HR_NO_TICKET));
	t.ring[0].taken = 5;
	cr_expect(hr_cache_taken(&t.ring[0], 4));
	cr_expect(!hr_cache_taken(&t.ring[0], 5));
}

/* ---- waits */

static void read_page(uint32_t step)
{
	struct hr_request_ring *ring = &t.ring[hr_cache_owner(&t.cache, t.at.set)];

	if (step ==
	    2) /* the request was taken, and the page has left again: the worker asks again */
		ring->taken = 1;
	if (step == 5)
		put(0, HR_PAGE_READING);
	if (step == 7)
		put(0, HR_PAGE_READY);
}

Test(objects_waits, a_wait_ends_with_its_page_and_asks_as_often_as_it_must)
{
	struct hr_request_ring *ring;
	struct hr_use use = hr_use_none();

	up(0);
	ring = &t.ring[hr_cache_owner(&t.cache, t.at.set)];
	t.step = read_page;
	t.words.epoch = EPOCH + 1;
	use.page = t.page;
	use.bytes = 4;
	memset(t.frame[0][t.at.set * HR_WAYS], 0x22, PAGE_BYTES);
	cr_expect_eq(hr_cache_await(&t.objects, &use, true, true, HR_NO_TICKET), 0);
	cr_expect_eq(use.value, 0x22222222);
	cr_expect_eq(t.idles, 7);
	cr_expect_eq(t.objects.waits, 70);
	cr_expect_eq(t.worker[1].seen, EPOCH + 1);
	cr_expect_eq(ring->tail, 2);
	cr_expect_eq(ring->entry[0], hr_request_entry(0, t.page));
	cr_expect_eq(ring->entry[1], hr_request_entry(1, t.page));
}

static void stop_then(uint32_t step)
{
	if (step == 3)
		t.words.stop = HR_CACHE_DEADLOCK;
}

static void fail_then(uint32_t step)
{
	if (step == 2)
		put(1, HR_PAGE_ERROR);
}

Test(objects_waits, a_wait_ends_with_the_run_or_an_error)
{
	static const struct {
		void (*step)(uint32_t idle);
		uint32_t stop;
		int error;
		uint32_t idles;
	} row[] = {
		{ stop_then, 0, -EDEADLK, 3 },
		{ fail_then, 0, -EIO, 2 },
		{ NULL, HR_CACHE_ENDS, -ECANCELED, 0 },
		{ NULL, HR_CACHE_FAILED, -ECANCELED, 0 },
	};

	for (uint32_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct hr_use use = hr_use_none();

		up(0);
		t.step = row[i].step;
		t.words.stop = row[i].stop;
		use.page = t.page;
		put(1, HR_PAGE_READING);
		cr_expect_eq(hr_cache_await(&t.objects, &use, true, false, HR_NO_TICKET),
			     row[i].error, "row %u", i);
		cr_expect_eq(t.objects.error, row[i].error);
		cr_expect_eq(t.objects.error_object, HR_NO_PAGE);
		cr_expect_eq(t.idles, row[i].idles, "row %u: %u", i, t.idles);
		cr_expect_eq(t.objects.waits, 10 * row[i].idles);
		cr_expect(t.ring[0].tail == 0 && t.ring[1].tail == 0);
	}
	/* a worker that holds a page does not publish */
	up(0);
	t.objects.held = 1;
	t.words.epoch = EPOCH + 1;
	t.step = fail_then;
	put(1, HR_PAGE_READING);
	cr_expect_eq(hr_cache_await(&t.objects, &(struct hr_use){ .page = t.page }, true, false,
				    HR_NO_TICKET),
		     -EIO);
	cr_expect_eq(t.worker[1].seen, 0);
}

/* ---- flushes and barriers */

static void flush_late(uint32_t step)
{
	if (step == 2)
		t.flushed[1] = 9;
	if (step == 4)
		t.flushed[0] = 8;
	if (step == 6)
		t.flushed[0] = UINT64_MAX;
}

static void end_late(uint32_t step)
{
	if (step == 8)
		t.words.stop = HR_CACHE_ENDS;
}

Test(objects_waits, a_flush_waits_for_all_io_workers)
{
	up(0);
	t.step = flush_late;
	t.words.flush_wanted = 8;
	t.objects.held = 2;
	cr_expect_eq(hr_flush(&t.objects), 0);
	cr_expect_eq(t.words.flush_wanted, 9);
	cr_expect(t.idles == 6 && t.objects.waits == 60 && t.objects.held == 0);
	/* the run ends while it waits, and before */
	t.step = end_late;
	cr_expect_eq(hr_flush(&t.objects), -ECANCELED);
	cr_expect(t.words.flush_wanted == 10 && t.idles == 8);
	cr_expect_eq(hr_flush(&t.objects), -ECANCELED);
	t.objects.error = 0;
	cr_expect_eq(hr_flush(&t.objects), -ECANCELED);
	cr_expect(t.words.flush_wanted == 10 && t.idles == 8);
}

static void arrive(uint32_t step)
{
	if (step == 2 || step == 4)
		t.words.barrier++;
}

static void one_ends(uint32_t step)
{
	if (step == 3)
		t.words.barrier += (uint64_t)1 << HR_BARRIER_BITS;
}

Test(objects_waits, a_barrier_waits_for_all_workers)
{
	up(0);
	t.step = arrive;
	t.words.barrier = 6;
	t.words.epoch = EPOCH + 1;
	cr_expect_eq(hr_workers_sync(&t.objects), 0);
	cr_expect(t.words.barrier == 9 && t.idles == 4 && t.objects.waits == 40);
	cr_expect_eq(t.worker[1].seen, EPOCH + 1);
	/* the last to arrive does not wait, though a worker has ended */
	t.words.barrier = 11 + ((uint64_t)1 << HR_BARRIER_BITS);
	cr_expect_eq(hr_workers_sync(&t.objects), 0);
	cr_expect_eq(t.idles, 4);
	t.step = one_ends;
	t.idles = 0;
	t.words.barrier = 13;
	cr_expect_eq(hr_workers_sync(&t.objects), -EDEADLK);
	cr_expect_eq(t.idles, 3);
	cr_expect_eq(hr_workers_sync(&t.objects), -EDEADLK);
	cr_expect_eq(t.words.barrier & 0xff, 14);
	up(0);
	t.words.stop = HR_CACHE_FAILED;
	t.words.barrier = (uint64_t)1 << HR_BARRIER_BITS;
	cr_expect_eq(hr_workers_sync(&t.objects), -ECANCELED);
	/* the word of gpu 0 */
	up(3);
	t.peers.self = 2;
	t.peer_words[0].barrier = 2;
	cr_expect_eq(hr_workers_sync(&t.objects), 0);
	cr_expect(t.peer_words[0].barrier == 3 && t.words.barrier == 0);
}

/* ---- pages of other gpus */

static void put_there(uint32_t gpu, uint32_t way, uint32_t state)
{
	t.set[gpu][t.at.set].tag[way] = HR_PAGE_WORD(t.at.tag, state);
	memset(t.frame[gpu][t.at.set * HR_WAYS + way], 0x10 * (int)gpu + (int)way, PAGE_BYTES);
}

Test(objects_waits, a_page_of_another_gpu_is_read_in_any_state_with_data)
{
	for (uint32_t self = 0; self < 3; self++)
		for (uint32_t step = 1; step < 3; step++)
			for (uint32_t kind = 0; kind < 16; kind++) {
				const uint32_t gpu = (self + step) % 3;
				const bool has = (kind & 7) >= HR_PAGE_READY,
					   copies = kind % 4 != 2;
				const uint64_t reads = HR_PEER_READS_OF_COPY - 2 + copies;
				struct hr_use use = hr_use_none();

				up(3);
				t.objects.peer_reads = reads;
				t.peers.self = self;
				put_there(gpu, 6, kind);
				put_there(self, 2, HR_PAGE_READY); /* its own is not looked at */
				cr_expect_eq(hr_peer_frame(&t.cache, t.page),
					     has ? t.frame[gpu][t.at.set * HR_WAYS + 6] : NULL);
				cr_expect_null(hr_peer_frame(&t.cache, t.other));
				use.page = t.page;
				use.in_page = 16;
				use.bytes = kind % 2 ? 4 : 8;
				cr_expect_eq(hr_peer_elements(&t.objects, &use, true), !has);
				cr_expect_eq(use.value,
					     !has ? 0
						  : (0x10 * gpu + 6) *
							     (kind % 2 ? 0x1010101ull
								       : 0x101010101010101ull));
				cr_expect_eq(t.objects.peer_reads, reads + has);
				/* one of so many reads requests a copy */
				cr_expect_eq(t.ring[0].tail + t.ring[1].tail, has && copies);
			}
	up(3);
	put_there(1, 3, HR_PAGE_READY);
	put_there(2, 4, HR_PAGE_READY);
	cr_expect_eq(hr_peer_frame(&t.cache, t.page), t.frame[1][t.at.set * HR_WAYS + 3]);
	cr_expect(!hr_peer_elements(&t.objects, &(struct hr_use){ .page = HR_NO_PAGE }, false));
	cr_expect_eq(t.objects.peer_reads, 0);
	/* the request for a copy is not made when the owner has much to do */
	t.ring[0].tail = t.ring[1].tail = 129;
	t.objects.peer_reads = HR_PEER_READS_OF_COPY - 1;
	hr_peer_request(&t.objects, t.page, true);
	cr_expect(t.ring[0].tail == 129 && t.ring[1].tail == 129);
	cr_expect_eq(t.objects.peer_reads, HR_PEER_READS_OF_COPY);
}

/* Without a request or a wait, in the own cache first. */
Test(objects_waits, a_page_now_is_found_in_the_caches_of_all_gpus)
{
	const struct hr_object *object = &t.cache.object[0];
	const uint64_t at = 9; /* t.page */

	for (uint32_t kind = 0; kind < 16; kind++) {
		const bool has = (kind & 7) >= HR_PAGE_READY;
		const uint8_t *frame;

		up(0);
		put_there(0, 5, kind);
		frame = hr_page_now(&t.objects, object, at);
		cr_expect_eq(frame != NULL, has, "%u", kind);
		cr_expect(!has || (frame[0] == 5 && frame[PAGE_BYTES - 1] == 5));
		cr_expect_eq(t.objects.accesses, has);
		cr_expect_eq(t.objects.held, 1);
		cr_expect(t.objects.misses == 0 && t.objects.peer_reads == 0);
		hr_quiescent(&t.objects);
		up(0);
		put_there(1, 5, kind); /* with one gpu there is no other */
		cr_expect_null(hr_page_now(&t.objects, object, at));
		hr_quiescent(&t.objects);
		up(3);
		put_there(2, 5, kind);
		t.objects.peer_reads = HR_PEER_READS_OF_COPY - 1;
		frame = hr_page_now(&t.objects, object, at);
		cr_expect_eq(frame != NULL, has, "%u", kind);
		cr_expect(!has || (frame[0] == 0x25 && frame[PAGE_BYTES - 1] == 0x25));
		cr_expect(t.objects.accesses == has && t.objects.misses == has);
		cr_expect_eq(t.objects.peer_reads, HR_PEER_READS_OF_COPY - 1 + has);
		cr_expect_eq(t.ring[0].tail + t.ring[1].tail, has);
		hr_quiescent(&t.objects);
	}
	up(3);
	put_there(0, 1, HR_PAGE_READY);
	put_there(2, 5, HR_PAGE_READY);
	cr_expect_eq(*(const uint8_t *)hr_page_now(&t.objects, object, at), 1);
	cr_expect_eq(t.objects.peer_reads, 0);
	hr_quiescent(&t.objects);
}

Test(objects_waits, a_page_now_beyond_the_object_is_no_error)
{
	up(3);
	put_there(0, 5, HR_PAGE_READY);
	cr_expect_null(hr_page_now(&t.objects, &t.cache.object[0], t.cache.object[0].pages));
	cr_expect_null(hr_page_now(&t.objects, &t.cache.object[0], HR_NO_INDEX));
	cr_expect_null(hr_page_now(&t.objects, NULL, 9));
	cr_expect(t.objects.error == 0 && t.objects.accesses == 0);
	t.objects.error = -EIO;
	cr_expect_null(hr_page_now(&t.objects, &t.cache.object[0], 9));
	hr_quiescent(&t.objects);
}
