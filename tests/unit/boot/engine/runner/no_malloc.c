/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nothing is allocated after the last stage of bring-up: whole pipelines run, checkpoint and finish
 * with malloc trapped, in all threads (workers, software controller, host).
 */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "boot/appliance/lend/service.h"
#include "config/base/scm.h"
#include "boot/engine/remote/remote.h"
#include "boot/engine/runner/runner.h"
#include "config/base/process.h"
#include "config/base/json.h"
#include "tests/harness/engine.h"
#include "tests/harness/link_rig.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
/* gcc has the function, but not its header. */
int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void *, size_t),
					      void (*on_free)(const volatile void *));
#endif

static bool watching;
static unsigned caught; /* allocations while sealed */

static void note(void)
{
	if (__atomic_load_n(&watching, __ATOMIC_ACQUIRE) && hr_sealed())
		__atomic_fetch_add(&caught, 1, __ATOMIC_RELAXED);
}

#ifdef SANITIZED

static void on_malloc(const volatile void *at, size_t bytes)
{
	note();
}

static void on_free(const volatile void *at)
{
}

static void watch(void)
{
	if (!watching)
		cr_assert_neq(__sanitizer_install_malloc_and_free_hooks(on_malloc, on_free), 0);
	__atomic_store_n(&watching, true, __ATOMIC_RELEASE);
}

#else

/* A symbol of the library whose allocations are allowed, or NULL; how many there were. */
static const void *library;
static unsigned allowed;

static void note_of(const void *caller)
{
	Dl_info its, wanted;

	if (!__atomic_load_n(&watching, __ATOMIC_ACQUIRE) || !hr_sealed())
		return;
	if (library && dladdr(library, &wanted) && dladdr(caller, &its) &&
	    its.dli_fbase == wanted.dli_fbase)
		__atomic_fetch_add(&allowed, 1, __ATOMIC_RELAXED);
	else
		note();
}

#define NOTE() note_of(__builtin_return_address(0))

/* Replaces libc's function in the whole program, and calls libc's. */
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *old, size_t bytes);
void *__libc_memalign(size_t align, size_t bytes);

void *malloc(size_t bytes)
{
	NOTE();
	return __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
	NOTE();
	return __libc_calloc(count, bytes);
}

void *realloc(void *old, size_t bytes)
{
	NOTE();
	return __libc_realloc(old, bytes);
}

void *aligned_alloc(size_t align, size_t bytes)
{
	NOTE();
	return __libc_memalign(align, bytes);
}

int posix_memalign(void **out, size_t align, size_t bytes)
{
	NOTE();
	*out = __libc_memalign(align, bytes);
	return *out ? 0 : ENOMEM;
}

static void watch(void)
{
	__atomic_store_n(&watching, true, __ATOMIC_RELEASE);
}

#endif

TestSuite(no_malloc, .timeout = 60);

static struct hr_engine engine;

static void bring_up(void)
{
	static const char text[] =
		"appliance = { checkpoint = \"1ms\"; };\n"
		"ssds = ( { name = \"a\"; device = \"soft:memory,size=128M\";\n"
		"  objects = ( { name = \"in\"; bytes = \"16M\"; } ); } );\n"
		"gpus = ( { name = \"g\"; device = \"host:2\"; } );\n"
		"pipelines = ( { name = \"sum\"; source = { object = \"in\"; };\n"
		"  operator = \"crc32c\"; tile = \"256K\"; slots = 4; },\n"
		" { name = \"copy\"; source = { object = \"in\"; }; operator = \"copy\";\n"
		"  sink = { object = \"out\"; }; tile = \"256K\"; slots = 4; },\n"
		" { name = \"cast\"; source = { object = \"out\"; }; operator = "
		"\"cast_f32_bf16\";\n"
		"  sink = { object = \"half\"; }; tile = \"256K\"; slots = 8;\n"
		"  blocks = { prefetch = 2; compute = 2; writeback = 2; }; } );\n";

	engine_read(&engine, text);
	cr_assert_eq(hr_engine_up(&engine, HR_STAGE_QUEUES), 0);
}

Test(no_malloc, whole_pipelines_run_without_allocating)
{
	watch();
	bring_up();
	cr_assert(hr_sealed());
	cr_assert_eq(hr_run_all(&engine, false, NULL), 0);
	hr_unseal();
	cr_assert_eq(__atomic_load_n(&caught, __ATOMIC_RELAXED), 0u, "%u allocations while sealed",
		     caught);
	for (int i = 0; i < 3; i++)
		cr_assert_eq(engine.run[i].outcome, HR_RUN_DONE);
	hr_engine_down(&engine);
}

/* ---- a tap, whose consumers are other processes */

#define TILES 64u

static struct hr_lend_service lend;
static struct hr_tap_sockets sockets;

static void serve(void *unused)
{
	hr_lend_service_step(&lend);
}

static int connect_to_tap(const char *directory)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	snprintf(at.sun_path, sizeof at.sun_path, "%s/t.tap", directory);
	while (connect(fd, (const struct sockaddr *)&at, sizeof at) != 0)
		hr_wait_ns(HR_NS_PER_MS);
	return fd;
}

static void say(int fd, enum hr_tap_kind kind)
{
	const struct hr_tap_message m = { .magic = HR_TAP_MAGIC,
					  .kind = (uint16_t)kind,
					  .version_least = HR_TAP_VERSION,
					  .version = HR_TAP_VERSION };

	if (send(fd, &m, sizeof m, 0) != sizeof m)
		_exit(2);
}

static void *map(int fd, uint64_t bytes, int protection)
{
	void *at = mmap(NULL, bytes, protection, MAP_SHARED, fd, 0);

	if (at == MAP_FAILED)
		_exit(3);
	return at;
}

/* Attach, give `most` tiles back, and leave; the last consumer waits for the end. */
static void consume(const char *directory, uint64_t most)
{
	const int fd = connect_to_tap(directory);
	struct hr_tap_message m;
	int fds[HR_TAP_FDS];
	unsigned count;
	ssize_t n;

	say(fd, HR_TAP_HELLO);
	n = hr_scm_receive(fd, &m, sizeof m, fds, HR_TAP_FDS, &count);
	if (n != sizeof m || m.kind != HR_TAP_WELCOME || count != HR_TAP_FDS)
		_exit(4);
	uint8_t *ring = map(fds[1], hr_tap_ring_bytes(m.ring), PROT_READ);
	uint8_t *page = map(fds[2], hr_tap_page_bytes(m.slots), PROT_READ | PROT_WRITE);
	const struct hr_tap_entry *entry = (void *)(ring + sizeof(struct hr_tap_head));
	uint32_t *gen = (void *)(page + sizeof(struct hr_tap_returns));

	say(fd, HR_TAP_READY);
	for (uint64_t i = 0; i < most; i++) {
		const struct hr_tap_entry *e = &entry[i % m.ring];

		while (hr_acquire_sys_u64(&e->sequence) != i + 1)
			hr_wait_ns(HR_NS_PER_MS / 10);
		hr_release_sys_u32(&gen[e->slot], e->gen);
	}
	say(fd, HR_TAP_DETACH);
	close(fd);
}

static pid_t start_consumers(const char *directory)
{
	const pid_t child = fork();

	if (child != 0)
		return child;
	for (int i = 0; i < 8; i++)
		consume(directory, TILES / 8);
	_exit(0);
}

static void bring_up_tap(void)
{
	static const char text[] =
		"ssds = ( { name = \"a\"; device = \"soft:memory,size=64M\";\n"
		"  objects = ( { name = \"in\"; bytes = \"4M\"; } ); } );\n"
		"gpus = ( { name = \"g\"; device = \"host:2\"; } );\n"
		"pipelines = ( { name = \"lend\"; source = { object = \"in\"; };\n"
		"  operator = \"copy\"; tile = \"64K\"; slots = 4; sink = { tap = \"t\"; }; } );\n";

	engine_read(&engine, text);
	cr_assert_eq(hr_engine_up(&engine, HR_STAGE_QUEUES), 0);
	cr_assert_eq(hr_tap_sockets_open(&sockets, &engine.config, NULL, test_error()), 0, "%s",
		     test_error_text());
	cr_assert_eq(hr_lend_service_open(&lend, &engine, &sockets, false, test_error()), 0);
	engine.serve = serve;
}

Test(no_malloc, tiles_are_lent_without_allocating)
{
	char directory[] = "/tmp/headrace-test-XXXXXX";
	pid_t child;
	int status;

	cr_assert_not_null(mkdtemp(directory));
	setenv("RUNTIME_DIRECTORY", directory, 1);
	child = start_consumers(directory); /* before there are threads */
	cr_assert_gt(child, 0);
	watch();
	bring_up_tap();
	cr_assert(hr_sealed());
	cr_assert_eq(hr_run_all(&engine, false, NULL), 0);
	hr_lend_service_close(&lend);
	hr_unseal();
	cr_expect_eq(__atomic_load_n(&caught, __ATOMIC_RELAXED), 0u, "%u allocations while sealed",
		     caught);
	cr_expect_eq(engine.run[0].outcome, HR_RUN_DONE);
	cr_expect_eq(engine.run[0].tap.attached, 8u);
	cr_expect_eq(waitpid(child, &status, 0), child);
	cr_expect_eq(status, 0);
	hr_tap_sockets_close(&sockets);
	hr_engine_down(&engine);
	rmdir(directory);
}

/* ---- a stream between two pipelines, by RDMA. Its connection is up before the appliance is sealed */

static char folder[] = "/tmp/headrace-test-XXXXXX", key[64];
static struct link_rig rig;

static void make_key(void)
{
	static const uint8_t data[32] = { 1 };
	int fd;

	cr_assert_not_null(mkdtemp(folder));
	snprintf(key, sizeof key, "%s/key", folder);
	fd = open(key, O_CREAT | O_WRONLY | O_CLOEXEC, 0400);
	cr_assert_eq(write(fd, data, sizeof data), (ssize_t)sizeof data);
	close(fd);
}

static void bring_up_stream(void)
{
	const unsigned port = link_rig_free_port();

	make_key();
	link_rig_init(&rig);
	engine_print(
		&engine,
		"appliance = { parallel = 2; checkpoint = \"1ms\"; };\n"
		"remote = { key = \"%s\"; };\n"
		"ssds = ( { name = \"a\"; device = \"soft:memory,size=64M\";\n"
		"  objects = ( { name = \"in\"; bytes = \"4M\"; } ); },\n"
		" { name = \"b\"; device = \"soft:memory,size=64M\"; } );\n"
		"gpus = ( { name = \"g\"; device = \"host:2\"; } );\n"
		"pipelines = ( { name = \"take\"; operator = \"copy\"; tile = \"64K\"; slots = 4;\n"
		"  source = { remote = \"127.0.0.1:%u\"; name = \"s\"; bytes = \"8M\"; };\n"
		"  sink = { object = \"out\"; ssd = \"b\"; }; },\n"
		" { name = \"send\"; operator = \"copy\"; tile = \"64K\"; slots = 4;\n"
		"  source = { object = \"in\"; ssd = \"a\"; };\n"
		"  sink = { remote = \"127.0.0.1:%u\"; name = \"s\"; }; } );\n",
		key, port, port);
	cr_assert_eq(hr_engine_up(&engine, HR_STAGE_QUEUES), 0);
}

/* Run it, and assert that all tiles have come. Returns how often its connection broke. */
static uint64_t run_stream(void)
{
	struct hr_remote_report report;

	cr_assert(hr_sealed());
	cr_expect_eq(hr_run_all(&engine, false, NULL), 0, "%s", engine.error.text);
	hr_unseal();
	cr_expect_eq(__atomic_load_n(&caught, __ATOMIC_RELAXED), 0u, "%u allocations while sealed",
		     caught);
	for (int i = 0; i < 2; i++)
		cr_expect_eq(engine.run[i].outcome, HR_RUN_DONE);
	hr_remote_snapshot(&engine, &engine.run[0], &report);
	cr_expect_eq(report.link.tiles, TILES);
	hr_engine_down(&engine);
	link_rig_fini(&rig);
	remove(key);
	rmdir(folder);
	return report.link.broken;
}

Test(no_malloc, tiles_are_streamed_without_allocating)
{
	watch();
	bring_up_stream();
	cr_expect_eq(run_stream(), 0);
}

#ifndef SANITIZED
/* The hooks of a sanitizer do not name the library that allocates. */
Test(no_malloc, a_connection_breaks_and_comes_back_without_allocating)
{
	watch();
	bring_up_stream();
	/* What the RDMA library allocates for a connection is its own. */
	library = link_rig_fake();
	link_rig_fake()->cut = 30;
	cr_expect_geq(run_stream(), 1);
	cr_expect_gt(__atomic_load_n(&allowed, __ATOMIC_RELAXED), 0u);
}
#endif

Test(no_malloc, json_is_written_without_allocating)
{
	static char text[4096], buffer[64];
	FILE *null = fopen("/dev/null", "w");
	struct hr_json j;

	cr_assert_not_null(null);
	setvbuf(null, buffer, _IOFBF, sizeof buffer);
	watch();
	hr_seal();
	for (int to_file = 0; to_file < 2; to_file++) {
		if (to_file)
			hr_json_to_file(&j, HR_JSON_INDENTED, null);
		else
			hr_json_to_text(&j, HR_JSON_LINE, text, sizeof text);
		hr_json_array(&j, "values");
		for (int i = 0; i < 20; i++) {
			hr_json_object(&j, NULL);
			hr_json_string(&j, "text", "\"caf\xc3\xa9\" \xff\n");
			hr_json_u64(&j, "u64", UINT64_MAX);
			hr_json_i64(&j, "i64", INT64_MIN);
			hr_json_fixed(&j, "fixed", 1e300, 3);
			hr_json_real(&j, "real", 1.0 / 3);
			hr_json_close(&j);
		}
		hr_json_close(&j);
		cr_assert_eq(hr_json_done(&j), 0);
	}
	hr_unseal();
	fclose(null);
	cr_assert_eq(__atomic_load_n(&caught, __ATOMIC_RELAXED), 0u);
}

Test(no_malloc, trap_sees_an_allocation)
{
	void *volatile block;

	watch();
	hr_seal();
	block = malloc(100);
	hr_unseal();
	free(block);
	cr_assert_eq(__atomic_load_n(&caught, __ATOMIC_RELAXED), 1u);
}
