/* SPDX-License-Identifier: Apache-2.0 */
/* Tiles in the memory of a GPU, in the client library: over a driver in C (tests/fakes/libcuda). */
#include "gpu/tap/client/tap_cuda.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/fakes/libcuda/control.h"

#define BYTES ((size_t)2 << 20)
#define PAGE 4096u

TestSuite(tap_cuda, .timeout = 120);

static struct fake_libcuda *fake;
static uint64_t page[PAGE / 8] __attribute__((aligned(4096)));
static int object;
static const uint8_t first[16] = { 0x10, 1, 2, 3 }, second[16] = { 0x11, 1, 2, 3 },
		     absent[16] = { 0xab, 0xcd, [15] = 0x0f };

/* The library that is loaded under this name already is the one that the client gets. */
static struct fake_libcuda *load(void)
{
	void *library = dlopen(TEST_LIBCUDA, RTLD_NOW | RTLD_LOCAL);

	cr_assert(library, "%s", dlerror());
	return dlsym(library, "fake_libcuda");
}

static struct hr_tap_cuda_memory memory;
static struct hr_tap_cuda *cuda;
static const char *tiles;
static int ordinal;
static char why[256];

static void set_up(void)
{
	fake = load();
	memset(fake, 0, sizeof *fake);
	memcpy(fake->uuid[0], first, 16);
	memcpy(fake->uuid[1], second, 16);
	fake->bytes = BYTES;
	memset(page, 0, sizeof page);
	memset(&memory, 0, sizeof memory);
	fake->devices = 2;
	object = memfd_create("tiles", MFD_CLOEXEC);
	cr_assert(object >= 0 && ftruncate(object, BYTES) == 0);
	cr_assert_eq(pwrite(object, "tile", 4, PAGE), 4);
}

static int open_it(const uint8_t *uuid)
{
	const void *at = NULL;
	int err;

	memory.fd = object;
	memory.bytes = BYTES;
	memory.uuid = uuid;
	memory.page = page;
	memory.page_bytes = PAGE;
	err = hr_tap_cuda_open(&cuda, &memory, &at, &ordinal, why, sizeof why);
	tiles = at;
	return err;
}

static uint32_t *word(unsigned i)
{
	return (uint32_t *)(void *)page + i;
}

static void expect_nothing_left(void)
{
	cr_expect(!fake->contexts && !fake->current && !fake->handles && !fake->reserved &&
			  !fake->mapped && !fake->registered && !fake->wrong,
		  "%d contexts, %d current, %d handles, %d reserved, %d mapped, %d registered, "
		  "%u wrong calls",
		  fake->contexts, fake->current, fake->handles, fake->reserved, fake->mapped,
		  fake->registered, fake->wrong);
}

Test(tap_cuda, tiles_are_mapped_on_the_gpu_with_the_uuid_for_reading, .init = set_up)
{
	cr_assert_eq(open_it(second), 0, "%s", why);
	cr_expect_eq(ordinal, 1);
	cr_expect_eq(memcmp(tiles + PAGE, "tile", 4), 0);
	cr_expect_eq(fake->flags, PROT_READ);
	cr_expect_eq(fake->current, 0, "the caller's context is restored");
	hr_tap_cuda_close(cuda);
	expect_nothing_left();
}

Test(tap_cuda, a_driver_without_access_for_reading_only_gives_both, .init = set_up)
{
	fake->only_both = true;
	cr_assert_eq(open_it(first), 0, "%s", why);
	cr_expect_eq(fake->flags, PROT_READ | PROT_WRITE);
	hr_tap_cuda_close(cuda);
	expect_nothing_left();
}

Test(tap_cuda, a_stream_gives_a_tile_back_after_its_work, .init = set_up)
{
	cr_assert_eq(open_it(first), 0, "%s", why);
	cr_assert_eq(hr_tap_cuda_write32(cuda, &object, word(16 + 3), 17), 0);
	cr_expect_eq(fake->stream, &object);
	cr_expect_eq(fake->at, ((uintptr_t)word(16 + 3) | FAKE_LIBCUDA_HOST));
	cr_expect_eq(fake->value, 17);
	cr_expect_eq(*word(16 + 3), 0, "the stream has not run");
	fake->fail = 2;
	cr_expect_eq(hr_tap_cuda_write32(cuda, &object, word(16 + 3), 18), -EIO);
	cr_expect_eq(fake->current, 0);
	hr_tap_cuda_close(cuda);
	expect_nothing_left();
}

Test(tap_cuda, without_writes_of_streams_a_tile_is_given_back_after_a_wait, .init = set_up)
{
	fake->no_stream_writes = true;
	cr_assert_eq(open_it(first), 0, "%s", why);
	cr_assert_eq(hr_tap_cuda_write32(cuda, &object, word(16 + 5), 9), 0);
	cr_expect_eq(fake->stream, &object);
	cr_expect_eq(*word(16 + 5), 9);
	fake->fail = 2;
	cr_expect_eq(hr_tap_cuda_write32(cuda, &object, word(16 + 5), 10), -EIO);
	cr_expect_eq(*word(16 + 5), 9, "its work may still read the tile");
	hr_tap_cuda_close(cuda);
	expect_nothing_left();
}

Test(tap_cuda, a_producer_maps_tiles_for_writing_and_a_stream_commits_them, .init = set_up)
{
	const uint64_t commit = 0x1234567800000100;

	memory.writes = true;
	cr_assert_eq(open_it(first), 0, "%s", why);
	cr_expect_eq(fake->flags, PROT_READ | PROT_WRITE);
	cr_assert_eq(hr_tap_cuda_write64(cuda, &object, &page[9], commit), 0);
	cr_expect_eq(fake->stream, &object);
	cr_expect_eq(fake->at, ((uintptr_t)&page[9] | FAKE_LIBCUDA_HOST));
	cr_expect_eq(fake->value, commit);
	cr_expect_eq(page[9], 0, "the stream has not run");
	cr_expect_eq(fake->current, 0);
	fake->synchronized = 0;
	cr_expect_eq(hr_tap_cuda_wait(cuda), 0);
	cr_expect_eq(fake->synchronized, 1);
	hr_tap_cuda_close(cuda);
	expect_nothing_left();
}

Test(tap_cuda, a_gpu_without_writes_of_64_bits_commits_after_a_wait, .init = set_up)
{
	fake->no_64_bits = true;
	memory.writes = true;
	cr_assert_eq(open_it(first), 0, "%s", why);
	cr_assert_eq(hr_tap_cuda_write64(cuda, &object, &page[9], 77), 0);
	cr_expect_eq(fake->stream, &object);
	cr_expect_eq(page[9], 77);
	fake->fail = 2;
	cr_expect_eq(hr_tap_cuda_write64(cuda, &object, &page[9], 78), -EIO);
	cr_expect_eq(page[9], 77, "its work may still write to the tile");
	fake->fail = 1;
	cr_expect_eq(hr_tap_cuda_wait(cuda), -EIO);
	fake->fail = 0;
	hr_tap_cuda_close(cuda);
	expect_nothing_left();
}

Test(tap_cuda, another_gpu_uses_the_tiles_by_peer_access, .init = set_up)
{
	memory.user = 2;
	cr_assert_eq(open_it(first), 0, "%s", why);
	cr_expect_eq(ordinal, 1);
	cr_expect_eq(fake->user, 71);
	cr_expect_eq(fake->context_of, 71, "its streams give tiles back");
	cr_expect_eq(fake->flags, PROT_READ);
	hr_tap_cuda_close(cuda);
	memory.user = 1;
	fake->no_peers = true;
	cr_assert_eq(open_it(first), 0, "the gpu that has them needs none: %s", why);
	cr_expect_eq(fake->user, 70);
	hr_tap_cuda_close(cuda);
	expect_nothing_left();
}

Test(tap_cuda, another_gpu_without_peer_access_is_refused, .init = set_up)
{
	memory.user = 1;
	fake->no_peers = true;
	cr_expect_eq(open_it(second), -ENOTSUP);
	cr_expect_str_eq(why, "GPU 0 cannot access the memory of GPU 1, which has the tiles");
	memory.user = 3;
	cr_expect_eq(open_it(second), -ENODEV);
	cr_expect_str_eq(why, "this process sees 2 GPUs, and no GPU 2");
	memory.user = -1;
	cr_expect_eq(open_it(second), -ENODEV);
	expect_nothing_left();
}

Test(tap_cuda, a_gpu_that_is_not_visible_is_named_with_those_that_are, .init = set_up)
{
	cr_expect_eq(open_it(absent), -ENODEV);
	cr_expect_str_eq(why, "the tiles are in the memory of "
			      "GPU-abcd0000-0000-0000-0000-00000000000f, and this process sees "
			      "GPU-10010203-0000-0000-0000-000000000000, "
			      "GPU-11010203-0000-0000-0000-000000000000");
	fake->devices = 0;
	cr_expect_eq(open_it(first), -ENODEV);
	cr_expect_str_eq(why, "the tiles are in the memory of "
			      "GPU-10010203-0000-0000-0000-000000000000, and this process sees "
			      "no GPU");
	expect_nothing_left();
}

static void expect_nothing_left_when_any_call_fails(void)
{
	unsigned nth = 0, failed = 0;
	bool reached;
	int err;

	do {
		fake->fail = ++nth;
		fake->synchronized = 0;
		why[0] = '\0';
		err = open_it(first);
		failed += err != 0;
		reached = fake->fail == 0;
		fake->fail = 0;
		cr_expect(!err || strstr(why, "CUDA_ERROR_UNKNOWN"), "call %u: %s", nth, why);
		if (!err)
			hr_tap_cuda_close(cuda);
		expect_nothing_left();
	} while (reached);
	cr_expect_geq(failed, 8);
}

Test(tap_cuda, each_call_may_fail_and_leaves_nothing, .init = set_up)
{
	expect_nothing_left_when_any_call_fails();
	memory.user = 2;
	memory.writes = true;
	expect_nothing_left_when_any_call_fails();
}
