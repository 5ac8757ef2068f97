/*
 * Nothing is allocated after the last stage of bring-up: whole pipelines run, checkpoint and finish
 * with malloc trapped, in all threads (workers, software controller, host).
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "boot/engine/names.h"
#include "boot/engine/runner.h"
#include "boot/engine/seal.h"
#include "boot/engine/stages.h"
#include "config/json.h"
#include "tests/harness/error.h"

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

/* Replaces libc's function in the whole program, and calls libc's. */
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *old, size_t bytes);
void *__libc_memalign(size_t align, size_t bytes);

void *malloc(size_t bytes)
{
	note();
	return __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
	note();
	return __libc_calloc(count, bytes);
}

void *realloc(void *old, size_t bytes)
{
	note();
	return __libc_realloc(old, bytes);
}

void *aligned_alloc(size_t align, size_t bytes)
{
	note();
	return __libc_memalign(align, bytes);
}

int posix_memalign(void **out, size_t align, size_t bytes)
{
	note();
	*out = __libc_memalign(align, bytes);
	return *out ? 0 : ENOMEM;
}

static void watch(void)
{
	__atomic_store_n(&watching, true, __ATOMIC_RELEASE);
}

#endif

TestSuite(no_malloc, .timeout = 60);

static struct hr_appliance app;

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

	cr_assert_eq(
		hr_config_parse(&app.config, &hr_names, "f", text, sizeof text - 1, test_error()),
		0, "%s", test_error_text());
	cr_assert_eq(hr_appliance_init(&app, NULL), 0);
	cr_assert_eq(hr_appliance_up(&app, HR_STAGE_QUEUES), 0);
}

Test(no_malloc, whole_pipelines_run_without_allocating)
{
	watch();
	bring_up();
	cr_assert(hr_sealed());
	cr_assert_eq(hr_run_all(&app, false, NULL), 0);
	hr_unseal();
	cr_assert_eq(__atomic_load_n(&caught, __ATOMIC_RELAXED), 0u, "%u allocations while sealed",
		     caught);
	for (int i = 0; i < 3; i++)
		cr_assert_eq(app.run[i].outcome, HR_RUN_DONE);
	hr_appliance_down(&app);
}

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
