/* Answers to requests of the store, whole: each item, and each byte of the reply. */
#include "boot/appliance/store_job_put.h"
#include "boot/engine/history.h"
#include "boot/engine/starts.h"
#include "cache/store/objmap_verify.h"
#include "tests/fakes/log.h"
#include "tests/harness/store_service_rig.h"

TestSuite(store_job, .init = begin, .fini = end, .timeout = 120);

#define REPLY(kind, rest)                                    \
	"{\"schema\": \"headrace.answer\", \"version\": 1, " \
	"\"appliance\": \"box\", \"request\": \"" kind "\", " rest "}\n"
#define FAILED(kind, object, code, text)                    \
	REPLY(kind, "\"ssd\": \"a\", \"object\": \"" object \
		    "\", \"result\": \"failed\", \"code\": " #code ", \"message\": \"" text "\"")

static void expect_reply(int fd, enum hr_request_kind kind, uint32_t code, const char *want)
{
	got = 0;
	cr_expect_str_eq(finish(fd, kind, code), want);
}

/* The items before the reply, as "kind:bytes ". */
static const char *items(enum hr_request_kind kind)
{
	static char text[512];
	struct hr_message_item item;
	size_t at = 0;

	text[0] = '\0';
	while (at < got && hr_message_parse_item(&item, answer + at, kind) == 0) {
		const size_t length = strlen(text);

		snprintf(text + length, sizeof text - length, "%d:%u ", (int)item.kind, item.bytes);
		at += HR_MESSAGE_HEADER + item.bytes;
	}
	return text;
}

/* The body of item n. */
static const void *body(enum hr_request_kind kind, uint32_t n)
{
	struct hr_message_item item;
	size_t at = 0;

	while (n--)
		at = item_at(at, kind, &item);
	item_at(at, kind, &item);
	return answer + at + HR_MESSAGE_HEADER;
}

/* One client whose job has begun; what the service sends first is dropped, as if it had been sent. Then
 * the job of a get or a verification is ready for the ssd. */
static struct hr_store_job *begun(int *fd, enum hr_request_kind kind, const char *object)
{
	struct hr_store_job *d = &service->job[0];
	int pair[2];

	got = 0;
	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	*fd = pair[0];
	d->state = HR_STORE_JOB_BEGINS;
	d->fd = pair[1];
	d->request = request(kind, object);
	d->request.bytes = kind == HR_REQUEST_STORE_PUT ? 100 : 0;
	d->waits_ns = d->heard_ns = hr_now_ns();
	hr_store_job_begin(service, d);
	cr_assert_eq(d->state, HR_STORE_JOB_SENDS);
	hr_store_job_sent(service, d);
	cr_assert_eq(d->state,
		     kind == HR_REQUEST_STORE_PUT ? HR_STORE_JOB_RECEIVES : HR_STORE_JOB_READY);
	return d;
}

/* ---- map */

Test(store_job, a_map_has_all_objects_and_the_space)
{
	static const char *const name[] = { "in", "b", "c" };
	struct hr_message_map map;
	struct hr_store_object object[3];

	put("b", in, 3000, false);
	put("c", in, 0, false);
	expect_reply(ask(HR_REQUEST_STORE_MAP, ""), HR_REQUEST_STORE_MAP, 0,
		     REPLY("store-map", "\"ssd\": \"a\", \"result\": \"done\", \"code\": 0"));
	memcpy(&map, body(HR_REQUEST_STORE_MAP, 0), sizeof map);
	memcpy(object, answer + HR_MESSAGE_HEADER + sizeof map, sizeof object);
	cr_expect_eq(map.count, 3u);
	cr_expect(map.space.objects == 3);
	cr_expect_eq(map.space.used, object[0].capacity + object[1].capacity + object[2].capacity);
	for (uint32_t i = 0; i < 3; i++) {
		cr_expect_str_eq(object[i].name, name[i]);
		cr_expect_eq(memcmp(&object[i], hr_store_find(store, name[i]), sizeof object[i]),
			     0);
	}
	cr_expect_eq(got, HR_MESSAGE_HEADER + sizeof map + sizeof object + HR_MESSAGE_HEADER +
				  strlen(REPLY("store-map", "\"ssd\": \"a\", \"result\": "
							    "\"done\", \"code\": 0")));
}

/* ---- get */

Test(store_job, a_get_comes_in_pieces)
{
	static const struct {
		uint32_t bytes;
		const char *data; /* items behind the first one */
	} row[] = {
		{ 0, "" },
		{ 1, "4:1 " },
		{ HR_MESSAGE_DATA_MAX, "4:1048576 " },
		{ HR_MESSAGE_DATA_MAX + 1, "4:1048576 4:1 " },
		{ IN_BYTES, "4:1048576 4:1048576 4:462848 " },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		char want[512], list[128];

		put("x", in, row[i].bytes, true);
		snprintf(want, sizeof want,
			 REPLY("store-get",
			       "\"ssd\": \"a\", \"object\": \"x\", \"bytes\": %u, \"crc32c\": "
			       "\"%08x\", \"result\": \"done\", \"code\": 0"),
			 row[i].bytes, hr_crc32c(0, in, row[i].bytes));
		expect_reply(ask(HR_REQUEST_STORE_GET, "x"), HR_REQUEST_STORE_GET, 0, want);
		snprintf(list, sizeof list, "%d:%zu %s", (int)HR_MESSAGE_OBJECT,
			 sizeof(struct hr_store_object), row[i].data);
		cr_expect_str_eq(items(HR_REQUEST_STORE_GET), list);
		cr_expect_eq(memcmp(body(HR_REQUEST_STORE_GET, 0), hr_store_find(store, "x"),
				    sizeof(struct hr_store_object)),
			     0);
		for (uint32_t p = 0; p < HR_STORE_PINS; p++)
			cr_expect_not(hr_store_is_pinned(store, p), "row %zu", i);
	}
}

/* Without a checksum there is nothing to compare with. */
Test(store_job, an_object_without_a_checksum)
{
	struct hr_store_object *object = hr_store_find(store, "in");
	const uint32_t crc = object->crc;

	object->crc = ~crc;
	object->flags &= ~(uint32_t)HR_OBJECT_HAS_CRC;
	expect(answer_to(HR_REQUEST_STORE_GET, "in", 0), "\"result\": \"done\", \"code\": 0}");
	object->flags |= HR_OBJECT_HAS_CRC;
	{
		char want[512];

		snprintf(want, sizeof want,
			 FAILED("store-get", "in", 4,
				"ssd 'a': 'in': CRC-32C of the read data is %08x, expected %08x"),
			 crc, ~crc);
		expect_reply(ask(HR_REQUEST_STORE_GET, "in"), HR_REQUEST_STORE_GET, 4, want);
	}
	object->crc = crc;
}

/* ---- refusals */

static int put_of(const char *name, uint64_t bytes)
{
	return ask_put(name, bytes, false);
}

Test(store_job, refusals)
{
	const int half = begin_put("half", 10, false);
	struct hr_request r = request(HR_REQUEST_STORE_MAP, "");
	uint32_t pins[HR_STORE_PINS], held = 0;

	expect_reply(ask(HR_REQUEST_STORE_GET, "none"), HR_REQUEST_STORE_GET, 1,
		     FAILED("store-get", "none", 1, "ssd 'a': 'none': there is no such object"));
	expect_reply(ask(HR_REQUEST_STORE_GET, "half"), HR_REQUEST_STORE_GET, 1,
		     FAILED("store-get", "half", 1,
			    "ssd 'a': 'half': incomplete: its writer has not finished"));
	expect_reply(put_of("in", 5), HR_REQUEST_STORE_PUT, 1,
		     FAILED("store-put", "in", 1,
			    "soft:memory: 'in': exists already; --replace replaces it"));
	expect_reply(put_of(HR_STARTS_OBJECT, 5), HR_REQUEST_STORE_PUT, 1,
		     FAILED("store-put", "headrace.starts", 1,
			    "object 'headrace.starts' belongs to the appliance"));
	expect_reply(put_of(HR_HISTORY_OBJECT, 5), HR_REQUEST_STORE_PUT, 1,
		     FAILED("store-put", "headrace.history", 1,
			    "object 'headrace.history' belongs to the appliance"));
	while (hr_store_pin(store, hr_store_find(store, "in")->id, false, &pins[held]) == 0)
		held++;
	expect_reply(ask(HR_REQUEST_STORE_GET, "in"), HR_REQUEST_STORE_GET, 1,
		     FAILED("store-get", "in", 1, "busy: too many objects are read now"));
	expect(answer_to(HR_REQUEST_STORE_VERIFY, "", 1), "busy: too many objects are read now");
	while (held)
		hr_store_unpin(store, pins[--held]);
	strcpy(r.disk, "name:b");
	expect_reply(pass(&r), r.kind, HR_ERROR_MISSING,
		     REPLY("store-map", "\"result\": \"absent\", \"code\": 3, \"message\": \"this "
					"appliance has no ssd 'name:b'\""));
	strcpy(r.disk, "a"); /* a name only behind "name:" */
	got = 0;
	expect(finish(pass(&r), r.kind, HR_ERROR_MISSING), "has no ssd 'a'");
	close(half);
}

/* Of the second ssd of two, by its name and by its identity. */
Test(store_job, the_ssd_of_a_request)
{
	struct hr_request r = request(HR_REQUEST_STORE_MAP, "");
	struct hr_config_ssd *ssd = app->config.ssd;

	strcpy(service->identity[1], "image:9:9/1");
	strcpy(r.disk, "image:9:9/1");
	expect_reply(pass(&r), r.kind, HR_ERROR_MISSING,
		     REPLY("store-map", "\"result\": \"absent\", \"code\": 3, \"message\": \"this "
					"appliance has no ssd 'image:9:9/1'\""));
	app->config.ssds = 2;
	strcpy(ssd[1].name, "second");
	expect_reply(pass(&r), r.kind, HR_ERROR_FAILED,
		     REPLY("store-map",
			   "\"ssd\": \"second\", \"result\": \"failed\", \"code\": 1, \"message\": "
			   "\"ssd 'second' is not up: no pipeline that runs uses it, or it has "
			   "failed\""));
	strcpy(r.disk, "name:second");
	got = 0;
	expect(finish(pass(&r), r.kind, HR_ERROR_FAILED), "ssd 'second' is not up");
	app->config.ssds = 1;
	strcpy(service->identity[0], "image:9:9/1");
	strcpy(r.disk, "image:9:9/1");
	got = 0;
	finish(pass(&r), r.kind, 0);
	app->ssd[0].has_store = false;
	expect_reply(ask(HR_REQUEST_STORE_MAP, ""), HR_REQUEST_STORE_MAP, HR_ERROR_FAILED,
		     REPLY("store-map", "\"ssd\": \"a\", \"result\": \"failed\", \"code\": 1, "
					"\"message\": \"ssd 'a' has no object store\""));
	app->ssd[0].has_store = true;
	app->ssd[0].health.state = HR_HEALTH_FAILED;
	answer_to(HR_REQUEST_STORE_MAP, "", HR_ERROR_DEVICE);
	app->ssd[0].health.state = HR_HEALTH_UP;
}

/* ---- errors of the ssd, and changes by pipelines, while data are read */

static void read_fails(struct hr_store_job *d)
{
	hr_store_job_used_disk(service, d, 0x281);
}
static void is_changed(struct hr_store_job *d)
{
	d->changed = true;
	hr_store_job_used_disk(service, d, 0);
}
static void loses_its_space(struct hr_store_job *d)
{
	hr_store_unpin(store, d->pin);
	hr_store_job_used_disk(service, d, 0);
}

Test(store_job, a_get_that_ends_early)
{
	static const struct {
		void (*happens)(struct hr_store_job *d);
		uint32_t code;
		const char *want;
	} row[] = {
		{ read_fails, 4, FAILED("store-get", "in", 4, "ssd 'a': 'in': cannot be read") },
		{ is_changed, 1,
		  FAILED("store-get", "in", 1,
			 "'in': a pipeline has changed it while it was read: try again") },
		{ loses_its_space, 1,
		  FAILED("store-get", "in", 1,
			 "'in': it was replaced while it was read, and its space is needed: try "
			 "again") },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct hr_store_job *d;
		int fd;

		d = begun(&fd, HR_REQUEST_STORE_GET, "in");
		row[i].happens(d);
		cr_expect_not(d->pinned);
		cr_expect_str_eq(finish(fd, HR_REQUEST_STORE_GET, row[i].code), row[i].want, "%s",
				 answer + HR_MESSAGE_HEADER);
		for (uint32_t p = 0; p < HR_STORE_PINS; p++)
			cr_expect_not(hr_store_is_pinned(store, p), "row %zu", i);
	}
}

/* ---- put */

static const char data[100] = "data";

Test(store_job, a_put_that_ends_early)
{
	static const struct {
		enum hr_message_kind kind;
		uint32_t before, bytes, code; /* data that have come; of the item */
		const char *want;
	} row[] = {
		{ HR_MESSAGE_DATA, 60, 41, 2,
		  FAILED("store-put", "x", 2,
			 "'x': more data than the 100 bytes that were announced") },
		{ HR_MESSAGE_END, 60, 4, 2,
		  FAILED("store-put", "x", 2, "'x': the data end after 60 of 100 bytes") },
		{ HR_MESSAGE_GO, 60, 0, 2,
		  FAILED("store-put", "x", 2, "the bytes are not a request of headrace") },
		{ HR_MESSAGE_LINE, 60, 5, 2,
		  FAILED("store-put", "x", 2, "the bytes are not a request of headrace") },
		{ HR_MESSAGE_END, 100, 5, 2, /* longer than a checksum */
		  FAILED("store-put", "x", 2, "the bytes are not a request of headrace") },
		{ HR_MESSAGE_END, 100, 4, 1,
		  FAILED("store-put", "x", 1,
			 "'x': CRC-32C of the received data is %08x, expected 61746164") },
	};

	hr_log_set_level(HR_LOG_WARN);
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		const int fd = begin_put("x", 100, false);
		char want[512];

		got = 0;
		give_item(fd, HR_MESSAGE_DATA, data, row[i].before - 1);
		give_item(fd, HR_MESSAGE_ALIVE, NULL, 0); /* allowed at any time */
		give_item(fd, HR_MESSAGE_DATA, data + row[i].before - 1, 1);
		give_item(fd, row[i].kind, data, row[i].bytes);
		snprintf(want, sizeof want, row[i].want, hr_crc32c(0, data, 100));
		cr_expect_str_eq(finish(fd, HR_REQUEST_STORE_PUT, row[i].code), want, "row %zu: %s",
				 i, answer + HR_MESSAGE_HEADER);
		expect_nothing_of("x");
		cr_expect_eq(fake_log_count_of(HR_LOG_WARN), 0u);
	}
}

/* Into a gap between two others. */
Test(store_job, a_put_writes_its_own_blocks_only)
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

/* The buffer has data of a request before. */
Test(store_job, the_last_block_of_a_put_ends_with_zeros)
{
	int fd;
	struct hr_store_job *d = begun(&fd, HR_REQUEST_STORE_PUT, "x");
	uint8_t want[HR_STORE_ALIGN] = { 0 };

	cr_assert_eq(d->piece, 100u);
	memset(want, 0xee, 100);
	memset(d->buffer, 0xee, HR_STORE_ALIGN);
	hr_store_job_use_disk(service, d);
	cr_expect_eq(d->state, HR_STORE_JOB_ON_DISK);
	cr_expect_eq(memcmp(d->buffer, want, sizeof want), 0);
	close(fd);
}

/* The data come in two items of any lengths, and the reply tells the whole. */
Test(store_job, a_put_is_told_whole)
{
	char want[512];

	for (uint32_t cut = 1; cut < 100; cut += 49) {
		const int fd = begin_put("x", 100, true);

		got = 0;
		give_item(fd, HR_MESSAGE_DATA, data, cut);
		give_item(fd, HR_MESSAGE_DATA, data + cut, 100 - cut);
		give_end(fd, hr_crc32c(0, data, 100));
		snprintf(want, sizeof want,
			 REPLY("store-put",
			       "\"ssd\": \"a\", \"object\": \"x\", \"bytes\": 100, \"crc32c\": "
			       "\"%08x\", \"result\": \"done\", \"code\": 0"),
			 hr_crc32c(0, data, 100));
		cr_expect_str_eq(finish(fd, HR_REQUEST_STORE_PUT, 0), want);
		cr_expect_eq(hr_store_find(store, "x")->crc, hr_crc32c(0, data, 100));
		cr_expect_eq(hr_store_find(store, "x")->tag, 0u, "no run goes on with it");
	}
	cr_expect_eq(changes, 3u);
	service->changed = NULL;
	put("x", in, 10, true);
}

Test(store_job, an_object_that_came_meanwhile_is_replaced_only_when_told)
{
	struct hr_store_object *other;
	const int fd = begin_put("x", 100, false);

	got = 0;
	give_item(fd, HR_MESSAGE_DATA, data, 100);
	cr_assert_eq(hr_store_create(store, "y", 10, 0, false, &other, NULL), 0);
	cr_assert_eq(hr_store_finish(store, other->id, true, 0, NULL), 0);
	strcpy(hr_store_find(store, "y")->name, "x"); /* a pipeline has made it */
	give_end(fd, hr_crc32c(0, data, 100));
	cr_expect_str_eq(finish(fd, HR_REQUEST_STORE_PUT, 1),
			 FAILED("store-put", "x", 1,
				"'x': a pipeline has made an object of that name meanwhile; "
				"--replace replaces it"));
	cr_expect_eq(hr_store_find(store, "x")->bytes, 10u);
}

Test(store_job, a_put_whose_write_fails_leaves_nothing)
{
	struct hr_store_job *d;
	int fd;

	d = begun(&fd, HR_REQUEST_STORE_PUT, "x");
	hr_store_job_used_disk(service, d, 0x280);
	expect(finish(fd, HR_REQUEST_STORE_PUT, 4), "ssd 'a': 'x': cannot be written\"}");
	expect_nothing_of("x");
}

/* A failed ssd gets no command; the incomplete object is told. */
Test(store_job, a_put_on_a_failed_ssd_stays_incomplete)
{
	const int fd = begin_put("x", 100, false);

	hr_log_set_level(HR_LOG_WARN);
	app->ssd[0].health.state = HR_HEALTH_FAILED;
	close(fd);
	while (service->job[0].state != HR_STORE_JOB_FREE)
		hr_store_service_step(service);
	app->ssd[0].health.state = HR_HEALTH_UP;
	cr_expect_str_eq(fake_log_last_of(HR_LOG_WARN),
			 "ssd 'a': 'x' of a client stays as an incomplete object");
	cr_expect_not_null(hr_store_find_pending(store, "x"));
}

/* ---- replaced objects that runs read */

Test(store_job, the_space_of_replaced_objects_is_kept_for_runs_that_read_them)
{
	struct hr_run *run = &app->run[0];
	struct hr_store_object old[HR_STORE_CLIENTS + 1];
	uint32_t n;

	put("x", in, 4096, false);
	for (n = 0; n < HR_STORE_CLIENTS; n++) {
		old[n] = *hr_store_find(store, "x");
		strcpy(app->config.pipeline[0].source[0].object, "x");
		run->source[0].id = old[n].id;
		put("x", in, 4096, true);
		cr_expect_eq(service->kept[0].id, old[n].id, "%u", n);
		cr_expect(service->kept[0].ssd == 0 && hr_store_is_pinned(store, 0));
		run->source[0].id = 0;
		hr_store_service_step(service);
		cr_expect_eq(service->kept[0].id, 0u, "nothing reads it");
	}
	for (n = 0; n < HR_STORE_CLIENTS; n++)
		service->kept[n].id = run->source[0].id = hr_store_find(store, "x")->id;
	{
		const int fd = begin_put("x", 100, true);

		got = 0;
		give_item(fd, HR_MESSAGE_DATA, data, 100);
		give_end(fd, hr_crc32c(0, data, 100));
		cr_expect_str_eq(finish(fd, HR_REQUEST_STORE_PUT, 1),
				 FAILED("store-put", "x", 1,
					"busy: pipelines read 8 replaced objects now: try again "
					"when they have ended"));
	}
	for (n = 0; n < HR_STORE_CLIENTS; n++)
		service->kept[n].id = 0;
	run->source[0].id = 0;
	put("y", in, 4096, false);
	app->config.pipeline[0].sources = 2;
	run->source[0].id = old[0].id = hr_store_find(store, "x")->id;
	run->source[1].id = old[1].id = hr_store_find(store, "y")->id;
	put("x", in, 4096, true);
	put("y", in, 4096, true);
	for (n = 0; n < 2; n++)
		cr_expect_eq(service->kept[n].id, old[n].id, "%u", n);
	app->config.pipeline[0].sources = 1;
}

/* ---- verify */

/* Behind the lines of the map: for each object its line, then the number of checked bytes. */
Test(store_job, a_verification_checks_objects_in_the_order_of_their_ids)
{
	char line[5][512], want[520];
	struct hr_store_object *object;
	uint32_t n = 0, lines = 0, dones = 0;
	struct hr_message_item item;
	uint64_t total = 0, checked = 0;
	size_t at = 0;

	put("b", in, 3000, false);
	put("c", in, 0, false);
	put("no-crc", in, 70, false);
	hr_store_find(store, "no-crc")->flags &= ~(uint32_t)HR_OBJECT_HAS_CRC;
	cr_assert_eq(hr_store_create(store, "half", 50, 0, false, &object, NULL), 0);
	hr_store_find(store, "b")->crc ^= 1;
	for (uint32_t i = 0; i < store->count; i++) {
		object = &store->object[i];
		if (object->flags & HR_OBJECT_HAS_CRC)
			total += object->bytes;
		cr_expect_eq(hr_store_finding(object, hr_crc32c(0, in, object->bytes), line[i],
					      sizeof line[i]),
			     i == 1);
	}
	cr_expect_eq(total, IN_BYTES + 3000u);
	expect_reply(ask(HR_REQUEST_STORE_VERIFY, ""), HR_REQUEST_STORE_VERIFY, 1,
		     REPLY("store-verify", "\"ssd\": \"a\", \"faults\": 1, \"findings_left_out\": "
					   "0, \"result\": \"done\", \"code\": 1"));
	while (hr_message_parse_item(&item, answer + at, HR_REQUEST_STORE_VERIFY) == 0) {
		const char *text = (char *)answer + at + HR_MESSAGE_HEADER;

		at += HR_MESSAGE_HEADER + item.bytes;
		if (item.kind == HR_MESSAGE_DONE) {
			struct hr_message_done done;

			memcpy(&done, text, sizeof done);
			cr_expect_geq(done.bytes, checked);
			cr_expect_eq(done.total, total);
			checked = done.bytes;
			dones++;
			continue;
		}
		cr_assert_eq(item.kind, HR_MESSAGE_LINE);
		if (!dones)
			continue; /* of the map */
		lines++;
		cr_assert_lt(n, 5u);
		snprintf(want, sizeof want, "%c%s", n == 1, line[n]);
		cr_expect(item.bytes == 1 + strlen(line[n]) && memcmp(text, want, item.bytes) == 0,
			  "%u: %.*s, expected %s", n, (int)item.bytes - 1, text + 1, line[n]);
		n++;
	}
	cr_expect_eq(checked, total);
	cr_expect_eq(lines, 5u);
	/* one before the first object, and one for each piece of 1 MiB and each object that has data
	 * to check */
	cr_expect_eq(dones, 1u + 3u + 1u + 1u, "%u", dones);
	hr_store_find(store, "b")->crc ^= 1;
}

static void verified(void (*happens)(struct hr_store_job *d), uint32_t faults, const char *line)
{
	struct hr_store_job *d;
	char want[512];
	int fd;

	d = begun(&fd, HR_REQUEST_STORE_VERIFY, "");
	happens(d);
	snprintf(want, sizeof want,
		 REPLY("store-verify", "\"ssd\": \"a\", \"faults\": %u, \"findings_left_out\": 0, "
				       "\"result\": \"done\", \"code\": %u"),
		 faults, faults);
	cr_expect_str_eq(finish(fd, HR_REQUEST_STORE_VERIFY, faults), want);
	cr_expect(memmem(answer, got, line, strlen(line)), "'%s' is not told", line);
	cr_expect_eq(d->state, HR_STORE_JOB_FREE);
	for (uint32_t p = 0; p < HR_STORE_PINS; p++)
		cr_expect_not(hr_store_is_pinned(store, p));
}

static void loses_its_checksum(struct hr_store_job *d)
{
	hr_store_find(store, "in")->flags &= ~(uint32_t)HR_OBJECT_HAS_CRC;
	hr_store_job_used_disk(service, d, 0);
}

Test(store_job, what_a_verification_cannot_read_is_told)
{
	verified(read_fails, 1, "in: cannot be read at byte 0: Unrecovered Read Error");
	verified(loses_its_space, 0, "in: not checked: a pipeline has changed or replaced it");
	verified(loses_its_checksum, 0, "in: not checked: a pipeline has changed or replaced it");
}

/* An error of the disk that is no status ends the request. */
Test(store_job, a_verification_without_a_disk_fails)
{
	struct hr_store_job *d;
	int fd;

	d = begun(&fd, HR_REQUEST_STORE_VERIFY, "");
	hr_store_job_used_disk(service, d, -ENODEV);
	expect(finish(fd, HR_REQUEST_STORE_VERIFY, 4),
	       "\"result\": \"failed\", \"code\": 4, \"message\": "
	       "\"ssd 'a': 'in': cannot be read\"}\n");
}
