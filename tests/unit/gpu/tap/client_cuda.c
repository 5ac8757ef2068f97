/*
 * Tiles in the memory of a GPU, in the client library: over a driver in C, whose memory objects are
 * memfds and whose streams run when the test says so.
 */
#include "gpu/tap/client/tap_cuda.c"

#include <criterion/criterion.h>
#include <sys/mman.h>
#include <unistd.h>

#define BYTES ((size_t)2 << 20)
#define PAGE 4096u
#define FAILED 999

TestSuite(tap_cuda, .timeout = 120);

static struct {
	int devices;
	bool no_driver, no_stream_writes, no_64_bits, only_both, no_peers;
	/* the nth call from now on fails; 0: none */
	unsigned fail;
	int flags, user; /* of the access to the tiles */
	/* what must be given back */
	int context_of;
	int contexts, current, handles, reserved, mapped, registered;
	/* the write that the stream has not done */
	void *stream;
	uint64_t at;
	uint64_t value;
	unsigned synchronized;
} fake;

static uint64_t page[PAGE / 8] __attribute__((aligned(4096)));
static int object;
static const uint8_t first[16] = { 0x10, 1, 2, 3 }, second[16] = { 0x11, 1, 2, 3 },
		     absent[16] = { 0xab, 0xcd, [15] = 0x0f };

#define HOST_OFFSET (1ull << 60)
#define ENTER()                                    \
	do {                                       \
		if (fake.fail && --fake.fail == 0) \
			return FAILED;             \
	} while (0)

static int init(unsigned flags)
{
	ENTER();
	return fake.devices ? 0 : NO_DEVICE;
}

static int error_name(int error, const char **name)
{
	*name = error == FAILED ? "CUDA_ERROR_UNKNOWN" : NULL;
	return *name ? 0 : 1;
}

static int device_count(int *count)
{
	ENTER();
	*count = fake.devices;
	return 0;
}

static int device(int *d, int ordinal)
{
	ENTER();
	*d = 70 + ordinal;
	return 0;
}

static int device_uuid(uint8_t *uuid, int d)
{
	ENTER();
	memcpy(uuid, d == 70 ? first : second, 16);
	return 0;
}

static int can_access(int *can, int d, int peer)
{
	ENTER();
	cr_expect(d != peer);
	*can = !fake.no_peers;
	return 0;
}

static int retain(void **context, int d)
{
	ENTER();
	fake.context_of = d;
	*context = &fake;
	fake.contexts++;
	return 0;
}

static int release(int d)
{
	fake.contexts--;
	return 0;
}

static int push(void *context)
{
	ENTER();
	fake.current++;
	return 0;
}

static int pop(void **context)
{
	fake.current--;
	return 0;
}

static int synchronize(void)
{
	fake.synchronized++;
	return 0;
}

static int import(uint64_t *handle, void *os_handle, int type)
{
	ENTER();
	cr_expect_eq(type, 1);
	*handle = (uint64_t)dup((int)(intptr_t)os_handle);
	fake.handles++;
	return 0;
}

static int reserve(uint64_t *at, size_t bytes, size_t align, uint64_t wish,
		   unsigned long long flags)
{
	ENTER();
	*at = (uintptr_t)mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	fake.reserved++;
	return 0;
}

static int address_free(uint64_t at, size_t bytes)
{
	munmap((void *)(uintptr_t)at, bytes);
	fake.reserved--;
	return 0;
}

static int map(uint64_t at, size_t bytes, size_t offset, uint64_t handle, unsigned long long flags)
{
	ENTER();
	cr_expect_eq(bytes, BYTES);
	cr_assert_neq(mmap((void *)(uintptr_t)at, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED,
			   (int)handle, 0),
		      MAP_FAILED);
	fake.mapped++;
	return 0;
}

static int unmap_(uint64_t at, size_t bytes)
{
	cr_expect_geq(fake.synchronized, 1, "kernels may still read the tiles");
	fake.mapped--;
	return 0;
}

static int memory_release(uint64_t handle)
{
	close((int)handle);
	fake.handles--;
	return 0;
}

static int set_access(uint64_t at, size_t bytes, const struct access *access, size_t count)
{
	ENTER();
	cr_expect_eq(access->location.type, 1);
	if (fake.only_both && access->flags != PROT_READ_WRITE)
		return FAILED;
	fake.flags = access->flags;
	fake.user = access->location.id;
	return mprotect((void *)(uintptr_t)at, bytes, access->flags);
}

static int host_register(void *memory, size_t bytes, unsigned flags)
{
	ENTER();
	if (fake.no_stream_writes)
		return FAILED;
	cr_expect_eq(memory, (void *)page);
	fake.registered++;
	return 0;
}

static int host_unregister(void *memory)
{
	fake.registered--;
	return 0;
}

static int host_pointer(uint64_t *at, void *memory, unsigned flags)
{
	ENTER();
	*at = (uintptr_t)memory | HOST_OFFSET;
	return 0;
}

static int stream_synchronize(void *stream)
{
	ENTER();
	fake.stream = stream;
	return 0;
}

static int stream_write(void *stream, uint64_t at, uint32_t value, unsigned flags)
{
	ENTER();
	cr_expect_eq(fake.current, 1, "the context is current");
	fake.stream = stream;
	fake.at = at;
	fake.value = value;
	return 0;
}

static int stream_write_64(void *stream, uint64_t at, uint64_t value, unsigned flags)
{
	if (fake.no_64_bits)
		return FAILED;
	ENTER();
	cr_expect_eq(fake.current, 1, "the context is current");
	fake.stream = stream;
	fake.at = at;
	fake.value = value;
	return 0;
}

#define FUNCTION(name, function)                       \
	{                                              \
		name, (hr_tap_cuda_function)(function) \
	}

hr_tap_cuda_function hr_tap_cuda_find(const char *name)
{
	static const struct {
		const char *name;
		hr_tap_cuda_function function;
	} row[] = {
		FUNCTION("cuInit", init),
		FUNCTION("cuGetErrorName", error_name),
		FUNCTION("cuDeviceGetCount", device_count),
		FUNCTION("cuDeviceGet", device),
		FUNCTION("cuDeviceGetUuid_v2", device_uuid),
		FUNCTION("cuDeviceCanAccessPeer", can_access),
		FUNCTION("cuDevicePrimaryCtxRetain", retain),
		FUNCTION("cuDevicePrimaryCtxRelease_v2", release),
		FUNCTION("cuCtxPushCurrent_v2", push),
		FUNCTION("cuCtxPopCurrent_v2", pop),
		FUNCTION("cuCtxSynchronize", synchronize),
		FUNCTION("cuMemImportFromShareableHandle", import),
		FUNCTION("cuMemAddressReserve", reserve),
		FUNCTION("cuMemAddressFree", address_free),
		FUNCTION("cuMemMap", map),
		FUNCTION("cuMemUnmap", unmap_),
		FUNCTION("cuMemRelease", memory_release),
		FUNCTION("cuMemSetAccess", set_access),
		FUNCTION("cuMemHostRegister_v2", host_register),
		FUNCTION("cuMemHostUnregister", host_unregister),
		FUNCTION("cuMemHostGetDevicePointer_v2", host_pointer),
		FUNCTION("cuStreamSynchronize", stream_synchronize),
		FUNCTION("cuStreamWriteValue32_v2", stream_write),
		FUNCTION("cuStreamWriteValue64_v2", stream_write_64),
	};

	for (size_t i = 0; !fake.no_driver && i < sizeof row / sizeof *row; i++)
		if (strcmp(row[i].name, name) == 0)
			return row[i].function;
	return NULL;
}

static struct hr_tap_cuda_memory memory;
static struct hr_tap_cuda *cuda;
static const char *tiles;
static int ordinal;
static char why[256];

static void set_up(void)
{
	memset(&fake, 0, sizeof fake);
	memset(page, 0, sizeof page);
	memset(&memory, 0, sizeof memory);
	fake.devices = 2;
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
	cr_expect(!fake.contexts && !fake.current && !fake.handles && !fake.reserved &&
			  !fake.mapped && !fake.registered,
		  "%d contexts, %d current, %d handles, %d reserved, %d mapped, %d registered",
		  fake.contexts, fake.current, fake.handles, fake.reserved, fake.mapped,
		  fake.registered);
}

Test(tap_cuda, tiles_are_mapped_on_the_gpu_with_the_uuid_for_reading, .init = set_up)
{
	cr_assert_eq(open_it(second), 0, "%s", why);
	cr_expect_eq(ordinal, 1);
	cr_expect_eq(cuda->device, 71);
	cr_expect_eq(memcmp(tiles + PAGE, "tile", 4), 0);
	cr_expect_eq(fake.flags, PROT_READ_ONLY);
	cr_expect_eq(fake.current, 0, "the caller's context is restored");
	hr_tap_cuda_close(cuda);
	expect_nothing_left();
}

Test(tap_cuda, a_driver_without_access_for_reading_only_gives_both, .init = set_up)
{
	fake.only_both = true;
	cr_assert_eq(open_it(first), 0, "%s", why);
	cr_expect_eq(fake.flags, PROT_READ_WRITE);
	hr_tap_cuda_close(cuda);
	expect_nothing_left();
}

Test(tap_cuda, a_stream_gives_a_tile_back_after_its_work, .init = set_up)
{
	cr_assert_eq(open_it(first), 0, "%s", why);
	cr_assert_eq(hr_tap_cuda_write32(cuda, &object, word(16 + 3), 17), 0);
	cr_expect_eq(fake.stream, &object);
	cr_expect_eq(fake.at, ((uintptr_t)word(16 + 3) | HOST_OFFSET));
	cr_expect_eq(fake.value, 17);
	cr_expect_eq(*word(16 + 3), 0, "the stream has not run");
	fake.fail = 2;
	cr_expect_eq(hr_tap_cuda_write32(cuda, &object, word(16 + 3), 18), -EIO);
	cr_expect_eq(fake.current, 0);
	hr_tap_cuda_close(cuda);
	expect_nothing_left();
}

Test(tap_cuda, without_writes_of_streams_a_tile_is_given_back_after_a_wait, .init = set_up)
{
	fake.no_stream_writes = true;
	cr_assert_eq(open_it(first), 0, "%s", why);
	cr_assert_eq(hr_tap_cuda_write32(cuda, &object, word(16 + 5), 9), 0);
	cr_expect_eq(fake.stream, &object);
	cr_expect_eq(*word(16 + 5), 9);
	fake.fail = 2;
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
	cr_expect_eq(fake.flags, PROT_READ_WRITE);
	cr_assert_eq(hr_tap_cuda_write64(cuda, &object, &page[9], commit), 0);
	cr_expect_eq(fake.stream, &object);
	cr_expect_eq(fake.at, ((uintptr_t)&page[9] | HOST_OFFSET));
	cr_expect_eq(fake.value, commit);
	cr_expect_eq(page[9], 0, "the stream has not run");
	cr_expect_eq(fake.current, 0);
	fake.synchronized = 0;
	cr_expect_eq(hr_tap_cuda_wait(cuda), 0);
	cr_expect_eq(fake.synchronized, 1);
	hr_tap_cuda_close(cuda);
	expect_nothing_left();
}

Test(tap_cuda, a_gpu_without_writes_of_64_bits_commits_after_a_wait, .init = set_up)
{
	fake.no_64_bits = true;
	memory.writes = true;
	cr_assert_eq(open_it(first), 0, "%s", why);
	cr_assert_eq(hr_tap_cuda_write64(cuda, &object, &page[9], 77), 0);
	cr_expect_eq(fake.stream, &object);
	cr_expect_eq(page[9], 77);
	fake.fail = 2;
	cr_expect_eq(hr_tap_cuda_write64(cuda, &object, &page[9], 78), -EIO);
	cr_expect_eq(page[9], 77, "its work may still write to the tile");
	fake.fail = 1;
	cr_expect_eq(hr_tap_cuda_wait(cuda), -EIO);
	fake.fail = 0;
	hr_tap_cuda_close(cuda);
	expect_nothing_left();
}

Test(tap_cuda, another_gpu_uses_the_tiles_by_peer_access, .init = set_up)
{
	memory.user = 2;
	cr_assert_eq(open_it(first), 0, "%s", why);
	cr_expect_eq(ordinal, 1);
	cr_expect_eq(fake.user, 71);
	cr_expect_eq(fake.context_of, 71, "its streams give tiles back");
	cr_expect_eq(fake.flags, PROT_READ_ONLY);
	hr_tap_cuda_close(cuda);
	memory.user = 1;
	fake.no_peers = true;
	cr_assert_eq(open_it(first), 0, "the gpu that has them needs none: %s", why);
	cr_expect_eq(fake.user, 70);
	hr_tap_cuda_close(cuda);
	expect_nothing_left();
}

Test(tap_cuda, another_gpu_without_peer_access_is_refused, .init = set_up)
{
	memory.user = 1;
	fake.no_peers = true;
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
	fake.devices = 0;
	cr_expect_eq(open_it(first), -ENODEV);
	cr_expect_str_eq(why, "the tiles are in the memory of "
			      "GPU-10010203-0000-0000-0000-000000000000, and this process sees "
			      "no GPU");
	fake.no_driver = true;
	cr_expect_eq(open_it(first), -ENODEV);
	cr_expect(strstr(why, "there is no libcuda.so.1"), "%s", why);
	expect_nothing_left();
}

static void expect_nothing_left_when_any_call_fails(void)
{
	unsigned nth = 0, failed = 0;
	bool reached;
	int err;

	do {
		fake.fail = ++nth;
		fake.synchronized = 0;
		why[0] = '\0';
		err = open_it(first);
		failed += err != 0;
		reached = fake.fail == 0;
		fake.fail = 0;
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
