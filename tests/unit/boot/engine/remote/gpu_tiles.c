/* SPDX-License-Identifier: Apache-2.0 */
/* Tiles of a stream in GPU memory, as the link gets them: over a fake GPU and a fake network device. */
#include "boot/engine/remote/stream.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "boot/remote/link.h"
#include "tests/fakes/shared_gpu.h"
#include "tests/harness/error.h"
#include "tests/harness/link_rig.h"

#define SLOTS 3u
#define SLOT 8192u

static struct link_rig rig;
static struct hr_backend backend;
static struct hr_remote_gpu_tiles gpu;
static struct hr_rdma_memory memory;

static void init(void)
{
	link_rig_init(&rig);
	fake_shared_gpu_open(&backend, true);
}

static void fini(void)
{
	link_rig_fini(&rig);
}

TestSuite(remote_gpu, .init = init, .fini = fini, .timeout = 120);

static int take(void)
{
	return hr_remote_gpu_take(&gpu, &backend, SLOTS, SLOT, &memory, test_error());
}

static int probe(char *text, size_t bytes)
{
	const struct hr_link_probe what = { .side = HR_LINK_RECEIVER,
					    .address = "127.0.0.1:1",
					    .memory = &memory };

	return hr_link_probe(&what, text, bytes, test_error());
}

Test(remote_gpu, a_network_device_is_proved_to_reach_the_memory)
{
	static const uint8_t none[64];
	char text[256] = "";

	cr_assert_eq(take(), 0, "%s", test_error_text());
	cr_expect_eq(memory.bytes, SLOTS * SLOT);
	cr_expect_eq(memory.slots, SLOTS);
	cr_expect_eq(memory.stride, SLOT);
	cr_expect_null(memory.flush);
	cr_expect_eq(probe(text, sizeof text), 0, "%s", test_error_text());
	cr_expect(strstr(text, "fake0 port 1"), "%s", text);
	for (uint32_t s = 0; s < SLOTS; s++)
		cr_expect_eq(memcmp(fake_shared_gpu.memory + (size_t)s * SLOT, none, sizeof none) !=
				     0,
			     s != 1, "slot %u", s);
	hr_remote_gpu_close(&gpu);
	cr_expect_eq(fcntl(memory.dmabuf, F_GETFD), -1);
	cr_expect_eq(fake_shared_gpu.regions, 0);
	hr_remote_gpu_close(&gpu);
}

Test(remote_gpu, a_gpu_that_does_not_order_writes_flushes_them)
{
	char text[256];

	fake_shared_gpu_open(&backend, false);
	cr_assert_eq(take(), 0, "%s", test_error_text());
	cr_assert_not_null(memory.flush);
	cr_expect_eq(probe(text, sizeof text), 0, "%s", test_error_text());
	cr_expect_eq(fake_shared_gpu.flushes, 2);
	fake_shared_gpu.flush = -EIO;
	cr_expect_eq(probe(text, sizeof text), -EIO);
	hr_remote_gpu_close(&gpu);
}

Test(remote_gpu, each_failing_function_of_the_backend_is_an_error_and_leaves_nothing)
{
	int *const made[] = { &fake_shared_gpu.reserve, &fake_shared_gpu.make,
			      &fake_shared_gpu.export };
	char text[256];

	for (size_t i = 0; i < sizeof made / sizeof *made; i++) {
		*made[i] = -ENOTSUP;
		cr_expect_eq(take(), -ENOTSUP, "%zu", i);
		cr_expect(strstr(test_error_text(), "fake GPU: Operation not supported"), "%s",
			  test_error_text());
		cr_expect_eq(test_error_kind(), HR_ERROR_MISSING);
		*made[i] = 0;
		cr_expect_eq(fake_shared_gpu.regions, 0, "%zu", i);
		hr_remote_gpu_close(&gpu);
	}
	cr_expect_str_eq(test_error_text(),
			 "no dma-buf of the tiles: fake GPU: Operation not supported");
	cr_assert_eq(take(), 0);
	fake_shared_gpu.upload = -EIO;
	cr_expect_eq(probe(text, sizeof text), -EIO);
	cr_expect(strstr(test_error_text(), "the GPU cannot write"), "%s", test_error_text());
	fake_shared_gpu.download = -EIO;
	cr_expect_eq(probe(text, sizeof text), -EIO);
	cr_expect(strstr(test_error_text(), "the GPU cannot read"), "%s", test_error_text());
	hr_remote_gpu_close(&gpu);
}

Test(remote_gpu, an_object_within_a_place_has_its_own_address)
{
	struct hr_region tap;
	uint8_t data[8] = "bytes";
	size_t object;
	int fd;

	cr_assert_eq(backend.ops->reserve_shared(&backend, 8 * SLOT, &tap, test_error()), 0);
	cr_assert_eq(backend.ops->make_shared(&backend, &tap, 4 * SLOT, SLOT, &object, &fd,
					      test_error()),
		     0);
	close(fd);
	cr_expect_eq(hr_remote_gpu_open(&gpu, &backend, &tap, SLOT, &memory, test_error()),
		     -EINVAL);
	cr_assert_eq(hr_remote_gpu_open(&gpu, &backend, &tap, 4 * SLOT, &memory, test_error()), 0);
	cr_expect_eq(memory.base, (uint8_t *)tap.worker + 4 * SLOT);
	cr_expect_eq(memory.store(memory.to, 16, data, sizeof data), 0);
	cr_expect_arr_eq(fake_shared_gpu.memory + 16, data, sizeof data);
	memset(data, 0, sizeof data);
	cr_expect_eq(memory.load(memory.to, 16, data, sizeof data), 0);
	cr_expect_str_eq((const char *)data, "bytes");
	hr_remote_gpu_close(&gpu);
	cr_expect_eq(fake_shared_gpu.regions, 1, "the place is not its own");
	backend.ops->free(&backend, &tap);
}
