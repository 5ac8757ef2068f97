/* SPDX-License-Identifier: Apache-2.0 */
/* Verifications that the engine serves, clients that misbehave, and the end of the engine. */
#include "boot/appliance/store/service.h"

#include "cache/store/verify.h"
#include "config/base/log.h"
#include "tests/fakes/log.h"
#include "tests/harness/store_service_rig.h"

TestSuite(store_service_clients, .init = begin, .fini = end, .timeout = 120);

/* ---- verify */

Test(store_service_clients, a_verification_finds_damaged_data)
{
	char line[512];

	put("b", in, 3000, false);
	expect(answer_to(HR_REQUEST_STORE_VERIFY, "", 0), "\"faults\": 0");
	hr_store_find(store, "in")->crc ^= 1;
	expect(answer_to(HR_REQUEST_STORE_VERIFY, "", 1), "\"faults\": 1");
	cr_expect(hr_store_finding(hr_store_find(store, "in"), hr_crc32c(0, in, IN_BYTES), line,
				   sizeof line));
	cr_expect(memmem(answer, got, line, strlen(line)), "not told: %s", line);
	hr_store_find(store, "in")->crc ^= 1;
}

Test(store_service_clients, a_verification_of_the_map_reads_no_data)
{
	struct hr_request r = request(HR_REQUEST_STORE_VERIFY, "");

	r.map_only = true;
	hr_store_find(store, "in")->crc ^= 1;
	got = 0;
	expect(finish(pass(&r), r.kind, 0), "\"faults\": 0");
	cr_expect(memmem(answer, got, "map copy", 8));
	cr_expect_null(memmem(answer, got, "in: ", 4));
	hr_store_find(store, "in")->crc ^= 1;
}

/* ---- clients */

static unsigned count_busy(void)
{
	unsigned busy = 0;

	for (uint32_t i = 0; i < HR_STORE_CLIENTS; i++)
		busy += service->job[i].state != HR_STORE_JOB_FREE;
	return busy;
}

static void age(uint64_t ns)
{
	for (uint32_t i = 0; i < HR_STORE_CLIENTS; i++) {
		service->job[i].waits_ns -= ns;
		service->job[i].heard_ns -= ns;
	}
}

Test(store_service_clients, a_client_that_neither_sends_nor_takes_is_dropped)
{
	const int put_fd = begin_put("x", 100, false), get_fd = ask(HR_REQUEST_STORE_GET, "in");
	const struct hr_message_item sign = { HR_MESSAGE_ALIVE, 0 };
	uint8_t head[HR_MESSAGE_HEADER];

	for (int i = 0; i < 100; i++)
		hr_store_service_step(service);
	cr_expect_eq(count_busy(), 2u);
	age(HR_STORE_CLIENT_SILENT_NS - HR_NS_PER_S);
	hr_message_format_item(&sign, HR_REQUEST_STORE_GET, head);
	give(get_fd, head, sizeof head);
	hr_store_service_step(service);
	age(2 * HR_NS_PER_S);
	hr_store_service_step(service);
	cr_expect_eq(count_busy(), 1u, "a sign of life counts");
	expect_nothing_of("x");
	age(HR_STORE_CLIENT_SILENT_NS);
	hr_store_service_step(service);
	cr_expect_eq(count_busy(), 0u);
	close(put_fd);
	close(get_fd);
}

Test(store_service_clients, more_clients_than_places_are_refused_until_one_is_slow)
{
	int fd[HR_STORE_CLIENTS];

	for (uint32_t i = 0; i < HR_STORE_CLIENTS; i++) {
		char name[8];

		snprintf(name, sizeof name, "x%u", i);
		fd[i] = begin_put(name, 100, false);
		service->job[i].waits_ns += 3600 * HR_NS_PER_S; /* beyond any delay */
	}
	expect(answer_to(HR_REQUEST_STORE_MAP, "", 1),
	       "all connections for store requests are in use");
	for (uint32_t i = 0; i < HR_STORE_CLIENTS; i++)
		service->job[i].waits_ns -= 3600 * HR_NS_PER_S + HR_STORE_CLIENT_PATIENCE_NS;
	answer_to(HR_REQUEST_STORE_MAP, "", 0);
	cr_expect_eq(count_busy(), HR_STORE_CLIENTS - 1);
	cr_expect_eq(service->refused, 1u);
	cr_expect_eq(service->dropped, 1u);
	cr_expect_eq(service->requests, HR_STORE_CLIENTS + 2);
	for (uint32_t i = 0; i < HR_STORE_CLIENTS; i++)
		close(fd[i]);
}

Test(store_service_clients, the_status_has_the_requests_that_are_served_and_their_clients)
{
	static uint8_t data[2 * HR_MESSAGE_DATA_MAX];
	struct hr_record_store status;
	const struct hr_record_store_job *job = &status.job[0];
	int fd;

	hr_store_service_snapshot(service, &status);
	cr_expect_eq(job->kind, 0u);
	fd = begin_put("x", sizeof data, false);
	give_item(fd, HR_MESSAGE_DATA, data, HR_MESSAGE_DATA_MAX);
	do {
		hr_store_service_step(service);
		hr_store_service_snapshot(service, &status);
	} while (job->done_bytes < HR_MESSAGE_DATA_MAX);
	cr_expect_eq(job->kind, HR_REQUEST_STORE_PUT);
	cr_expect_eq(job->ssd, 0u);
	cr_expect_str_eq(job->object, "x");
	cr_expect_eq(job->total_bytes, sizeof data);
	cr_expect_eq(job->user, getuid());
	cr_expect_eq(job->process, (uint64_t)getpid());
	close(fd);
	do {
		hr_store_service_step(service);
		hr_store_service_snapshot(service, &status);
	} while (job->kind);
	cr_expect_eq(status.requests, 1u);
	cr_expect_eq(status.dropped, 1u);
	cr_expect_eq(status.refused, 0u);
}

static struct hr_request other_request;
static int other_fd;

static void take_other(void *to, const struct hr_request *r, int fd)
{
	other_request = *r;
	other_fd = fd;
}

Test(store_service_clients, another_kind_of_request_is_passed_on_or_refused)
{
	struct hr_request r = { .kind = HR_REQUEST_STATUS };
	int fd;

	got = 0;
	expect(finish(pass(&r), r.kind, 1), "busy");
	service->other = take_other;
	other_fd = -1;
	fd = pass(&r);
	hr_store_service_step(service);
	cr_expect_eq(other_request.kind, HR_REQUEST_STATUS);
	cr_expect_geq(other_fd, 0);
	close(other_fd);
	close(fd);
}

Test(store_service_clients, the_end_of_the_engine_is_told_and_leaves_nothing)
{
	const int put_fd = begin_put("x", 100, false);

	give_item(put_fd, HR_MESSAGE_DATA, in, 50);
	hr_store_service_close(service);
	got = 0;
	expect(finish(put_fd, HR_REQUEST_STORE_PUT, 1), "the engine of the appliance ends");
	expect_nothing_of("x");
	hr_store_service_close(service);
	hr_store_service_step(service);
}

Test(store_service_clients, the_socket_of_clients_may_end)
{
	close(hands[0]);
	hr_store_service_step(service);
	cr_expect_eq(service->clients, -1);
	hr_store_service_step(service);
	hands[0] = -1;
}

/* Eight moves of one job, so that others have their turn. */
Test(store_service_clients, a_step_ends)
{
	struct hr_store_object *object;
	struct hr_message_item item;
	uint32_t lines = 0;
	size_t at = 0;
	char name[32];
	int fd;

	for (uint32_t i = 0; i < 20; i++) { /* lines of other lengths */
		snprintf(name, sizeof name, "%.*s%u", i % 2 ? 9 : 1, "xxxxxxxxx", i + 10);
		cr_assert_eq(hr_store_create(store, name, 10, 0, false, &object, NULL), 0);
		cr_assert_eq(hr_store_finish(store, object->id, false, 0, NULL), 0);
	}
	cr_assert_eq(hr_store_remove(store, hr_store_find(store, "in")->id, NULL), 0);
	got = 0;
	fd = ask(HR_REQUEST_STORE_VERIFY, "");
	hr_store_service_step(service);
	got = (size_t)recv(fd, answer, 1 << 20, 0);
	while (at < got) {
		const bool finding = lines || at > 0;

		at = item_at(at, HR_REQUEST_STORE_VERIFY, &item);
		lines += finding && memmem(answer + at - item.bytes, item.bytes, "no checksum", 11);
	}
	cr_expect(lines > 0 && lines <= 8, "%u", lines);
	expect(finish(fd, HR_REQUEST_STORE_VERIFY, 0), "\"faults\": 0");
}

/* ---- puts beside other objects and devices */

/* Into a gap between two others. */
Test(store_service_clients, a_put_writes_its_own_blocks_only)
{
	const struct hr_store_object *first;
	uint64_t offset;

	put("first", in, HR_STORE_ALIGN, false);
	put("second", in + 8, HR_STORE_ALIGN, false);
	first = hr_store_find(store, "first");
	offset = first->offset;
	cr_assert_eq(hr_store_remove(store, first->id, NULL), 0);
	put("third", in + 16, HR_STORE_ALIGN, false);
	cr_assert_eq(hr_store_find(store, "third")->offset, offset);
	expect_object("second", in + 8, HR_STORE_ALIGN);
	expect_object("third", in + 16, HR_STORE_ALIGN);
}

Test(store_service_clients, an_object_that_came_meanwhile_is_replaced_only_when_told)
{
	struct hr_store_object *other;
	const int fd = begin_put("x", 100, false);

	got = 0;
	give_item(fd, HR_MESSAGE_DATA, in, 100);
	cr_assert_eq(hr_store_create(store, "y", 10, 0, false, &other, NULL), 0);
	cr_assert_eq(hr_store_finish(store, other->id, true, 0, NULL), 0);
	strcpy(hr_store_find(store, "y")->name, "x"); /* a pipeline has made it */
	give_end(fd, hr_crc32c(0, in, 100));
	expect(finish(fd, HR_REQUEST_STORE_PUT, 1),
	       "'x': a pipeline has made an object of that name meanwhile; --replace replaces it");
	cr_expect_eq(hr_store_find(store, "x")->bytes, 10u);
}

/* A failed ssd gets no command; the incomplete object is told. */
Test(store_service_clients, a_put_on_a_failed_ssd_stays_incomplete)
{
	const int fd = begin_put("x", 100, false);

	hr_log_set_level(HR_LOG_WARN);
	engine->ssd[0].health.state = HR_HEALTH_FAILED;
	close(fd);
	while (service->job[0].state != HR_STORE_JOB_FREE)
		hr_store_service_step(service);
	engine->ssd[0].health.state = HR_HEALTH_UP;
	cr_expect_str_eq(fake_log_last_of(HR_LOG_WARN),
			 "ssd 'a': 'x' of a client stays as an incomplete object");
	cr_expect_not_null(hr_store_find_pending(store, "x"));
}
