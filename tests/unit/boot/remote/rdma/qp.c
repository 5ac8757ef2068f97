/* SPDX-License-Identifier: Apache-2.0 */
/* Queue pairs, memory and the loopback on the fake device, one case for each refusal. */
#include "boot/remote/rdma/qp.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "boot/remote/rdma/device.h"
#include "tests/harness/error.h"
#include "tests/harness/link_rig.h"

static struct link_rig rig;
static struct hr_verbs verbs;
static struct in_addr local;
static struct hr_rdma_memory memory;
static uint8_t table[2][4096] __attribute__((aligned(4096)));

static void init(void)
{
	link_rig_init(&rig);
	cr_assert_eq(hr_verbs_load(&verbs, test_error()), 0, "%s", test_error_text());
	cr_assert_eq(inet_pton(AF_INET, "127.0.0.1", &local), 1);
	memory = rig.setup[0].memory;
}

static void fini(void)
{
	hr_verbs_unload(&verbs);
	link_rig_fini(&rig);
}

TestSuite(qp, .init = init, .fini = fini, .timeout = 300);

static void make(struct hr_rdma_qp *qp, unsigned side)
{
	const struct hr_rdma_qp_setup setup = {
		.memory = &rig.setup[side].memory,
		.tile_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
		.table = table[side],
		.table_bytes = sizeof(table[side]),
		.sends = 8,
		.receives = 8,
	};
	struct hr_rdma_device device;

	cr_assert_eq(hr_rdma_device_open(&verbs, NULL, local, &device, test_error()), 0);
	cr_assert_eq(hr_rdma_qp_create(qp, &verbs, &device, &setup, test_error()), 0, "%s",
		     test_error_text());
}

static void join(struct hr_rdma_qp *qp, const struct hr_rdma_qp *other)
{
	const struct hr_rdma_remote_qp peer = { .qp = other->qp->qp_num,
						.psn = 9,
						.mtu = IBV_MTU_4096 };

	cr_assert_eq(hr_rdma_qp_post_recv(qp, 2), 0);
	cr_assert_eq(hr_rdma_qp_connect(qp, &peer, 9, test_error()), 0, "%s", test_error_text());
}

static enum ibv_wc_status status_of(struct hr_rdma_qp *qp, bool receive)
{
	struct hr_rdma_completion done;

	while (hr_rdma_qp_poll(qp, &done) <= 0 || done.receive != receive)
		;
	return done.status;
}

Test(qp, a_key_of_an_old_connection_reaches_no_memory)
{
	struct hr_rdma_qp from, to, again;
	uint32_t old;

	make(&from, 0);
	make(&to, 1);
	old = to.tiles->rkey;
	hr_rdma_qp_destroy(&to);
	make(&again, 1);
	join(&again, &from);
	join(&from, &again);
	memset(rig.memory[1], 3, 64);
	cr_assert_eq(hr_rdma_qp_post_write_imm(&from, table[0], 64, again.tile_base, old, 0), 0);
	cr_expect_eq(status_of(&from, false), IBV_WC_REM_ACCESS_ERR);
	cr_expect_eq(link_rig_fake()->refused_keys, 1);
	cr_expect_eq(rig.memory[1][0], 3);
	hr_rdma_qp_to_error(&again);
	while (!hr_rdma_qp_drained(&again))
		status_of(&again, true);
	hr_rdma_qp_destroy(&from);
	hr_rdma_qp_destroy(&again);
}

Test(qp, a_write_behind_the_region_is_refused)
{
	struct hr_rdma_qp from, to;

	make(&from, 0);
	make(&to, 1);
	join(&to, &from);
	join(&from, &to);
	cr_assert_eq(hr_rdma_qp_post_write_imm(&from, table[0], 64,
					       to.tile_base + memory.bytes - 63, to.tiles->rkey, 0),
		     0);
	cr_expect_eq(status_of(&from, false), IBV_WC_REM_ACCESS_ERR);
	hr_rdma_qp_destroy(&from);
	hr_rdma_qp_destroy(&to);
}

Test(qp, an_immediate_without_a_receive_is_an_error)
{
	struct hr_rdma_qp from, to;

	make(&from, 0);
	make(&to, 1);
	join(&to, &from);
	join(&from, &to);
	for (int i = 0; i < 3; i++)
		cr_assert_eq(hr_rdma_qp_post_write_imm(&from, table[0], 8, to.tile_base,
						       to.tiles->rkey, 0),
			     0);
	cr_expect_eq(status_of(&from, false), IBV_WC_SUCCESS);
	cr_expect_eq(status_of(&from, false), IBV_WC_SUCCESS);
	cr_expect_eq(status_of(&from, false), IBV_WC_RNR_RETRY_EXC_ERR);
	hr_rdma_qp_destroy(&from);
	hr_rdma_qp_destroy(&to);
}

Test(qp, all_work_of_a_broken_queue_pair_has_completions)
{
	struct hr_rdma_qp from, to;

	make(&from, 0);
	make(&to, 1);
	join(&to, &from);
	join(&from, &to);
	link_rig_fake()->stall = 1;
	cr_assert_eq(hr_rdma_qp_post_write(&from, 0, 100, to.tile_base, to.tiles->rkey, NULL), 0);
	cr_assert_eq(hr_rdma_qp_post_write_imm(&from, table[0], 8, to.tile_base, to.tiles->rkey, 0),
		     0);
	cr_expect_not(hr_rdma_qp_drained(&from));
	hr_rdma_qp_to_error(&from);
	cr_expect_eq(status_of(&from, false), IBV_WC_WR_FLUSH_ERR); /* of the tile */
	cr_expect_eq(status_of(&from, false), IBV_WC_WR_FLUSH_ERR);
	cr_expect_eq(status_of(&from, true), IBV_WC_WR_FLUSH_ERR);
	cr_expect_not(hr_rdma_qp_drained(&from));
	cr_expect_eq(status_of(&from, true), IBV_WC_WR_FLUSH_ERR);
	cr_expect(hr_rdma_qp_drained(&from));
	hr_rdma_qp_destroy(&from);
	hr_rdma_qp_destroy(&to);
}

static int loopback(void)
{
	return hr_rdma_loopback(&verbs, NULL, local, &memory, test_error());
}

Test(qp, the_loopback_reaches_the_first_and_the_last_slot)
{
	cr_expect_eq(loopback(), 0, "%s", test_error_text());
	cr_expect_neq(memcmp(rig.memory[0], table[0], 64), 0);
	cr_expect_neq(memcmp(rig.memory[0] + (size_t)(RIG_SLOTS - 1) * RIG_STRIDE, table[0], 64),
		      0);
}

Test(qp, a_device_that_does_not_reach_the_memory_is_refused)
{
	link_rig_fake()->deaf = 1;
	cr_expect_eq(loopback(), -EIO);
	cr_expect_str_eq(test_error_text(),
			 "fake0: loopback: the device does not reach the memory of the tiles");
	cr_expect_eq(test_error_kind(), HR_ERROR_DEVICE);
}

Test(qp, a_device_that_loses_immediates_is_refused)
{
	link_rig_fake()->no_immediate = 1;
	cr_expect_eq(loopback(), -EIO);
	cr_expect_str_eq(test_error_text(), "fake0: loopback: no completion");
}

Test(qp, a_write_that_fails_is_named)
{
	link_rig_fake()->fail = IBV_WC_RETRY_EXC_ERR;
	cr_expect_eq(loopback(), -EIO);
	cr_expect_str_eq(test_error_text(), "fake0: loopback: transport retry counter exceeded");
}

Test(qp, a_registration_that_fails_is_named)
{
	link_rig_fake()->reg_error = ENOMEM;
	cr_expect_eq(loopback(), -ENOMEM);
	cr_expect_str_eq(test_error_text(),
			 "fake0: cannot register the memory of the tiles: Cannot allocate memory; "
			 "is the limit of locked memory (ulimit -l) too low?");
}

Test(qp, a_device_without_inline_data_is_refused)
{
	link_rig_fake()->no_inline = 1;
	cr_expect_eq(loopback(), -EINVAL);
	cr_expect_str_eq(test_error_text(), "fake0: no queue pair: Invalid argument");
}

/* GPU memory: a file that the network device maps, and workers access by read() and write(). */
struct gpu {
	int fd;
	int load, store, flush; /* errors */
	unsigned flushes;
};

static int load(void *to, uint64_t at, void *data, size_t bytes)
{
	const struct gpu *gpu = to;

	cr_assert_eq(pread(gpu->fd, data, bytes, (off_t)(memory.dmabuf_off + at)), (ssize_t)bytes);
	return gpu->load;
}

static int store(void *to, uint64_t at, const void *data, size_t bytes)
{
	const struct gpu *gpu = to;

	cr_assert_eq(pwrite(gpu->fd, data, bytes, (off_t)(memory.dmabuf_off + at)), (ssize_t)bytes);
	return gpu->store;
}

static int flush(void *to)
{
	struct gpu *gpu = to;

	gpu->flushes++;
	return gpu->flush;
}

static int make_gpu_file(void)
{
	const int fd = memfd_create("gpu", MFD_CLOEXEC);

	cr_assert_eq(ftruncate(fd, 2 * RIG_SLOTS * RIG_STRIDE), 0);
	return fd;
}

/* Addresses of GPU memory mean nothing to this process. */
static void describe_gpu(struct gpu *gpu)
{
	*gpu = (struct gpu){ .fd = make_gpu_file() };
	memory.base = (uint8_t *)(uintptr_t)0x7000000000;
	memory.dmabuf = gpu->fd;
	memory.dmabuf_off = RIG_SLOTS * RIG_STRIDE;
	memory.load = load;
	memory.store = store;
	memory.to = gpu;
}

Test(qp, the_loopback_reaches_gpu_memory_in_both_directions)
{
	uint8_t seen[64], none[64] = { 0 };
	struct gpu gpu;

	describe_gpu(&gpu);
	cr_expect_eq(loopback(), 0, "%s", test_error_text());
	cr_expect_eq(gpu.flushes, 0);
	for (uint64_t slot = 0; slot < RIG_SLOTS; slot++) {
		cr_assert_eq(load(&gpu, slot * RIG_STRIDE, seen, sizeof seen), 0);
		cr_expect_eq(memcmp(seen, none, sizeof seen) != 0,
			     slot == 0 || slot == RIG_SLOTS - 1, "slot %llu",
			     (unsigned long long)slot);
	}
	memory.flush = flush;
	cr_expect_eq(loopback(), 0, "%s", test_error_text());
	cr_expect_eq(gpu.flushes, 2, "before each look at what has arrived");
	close(gpu.fd);
}

Test(qp, a_device_that_does_not_reach_gpu_memory_is_refused)
{
	struct gpu gpu;
	int other;

	describe_gpu(&gpu);
	link_rig_fake()->deaf = 1;
	cr_expect_eq(loopback(), -EIO);
	cr_expect_str_eq(test_error_text(),
			 "fake0: loopback: the device does not reach the memory of the tiles");
	link_rig_fake()->deaf = 0;
	link_rig_fake()->blind = 1;
	cr_expect_eq(loopback(), -EIO);
	cr_expect_str_eq(test_error_text(),
			 "fake0: loopback: the device reads other memory than that of the tiles");
	link_rig_fake()->blind = 0;
	/* the device finds there what it has written, and the GPU has other memory */
	other = memory.dmabuf = make_gpu_file();
	cr_expect_eq(loopback(), -EIO);
	cr_expect_str_eq(test_error_text(),
			 "fake0: loopback: the device does not reach the memory of the tiles");
	cr_expect_eq(test_error_kind(), HR_ERROR_DEVICE);
	close(other);
	close(gpu.fd);
}

Test(qp, a_gpu_that_fails_in_the_loopback_is_named)
{
	struct gpu gpu;

	describe_gpu(&gpu);
	gpu.load = -EIO;
	cr_expect_eq(loopback(), -EIO);
	cr_expect_str_eq(test_error_text(),
			 "loopback: the GPU cannot read the memory of the tiles: "
			 "Input/output error");
	gpu.load = 0;
	gpu.store = -EIO;
	cr_expect_eq(loopback(), -EIO);
	cr_expect_str_eq(test_error_text(), "loopback: the GPU cannot write the memory of the "
					    "tiles: Input/output error");
	gpu.store = 0;
	gpu.flush = -ENODEV;
	memory.flush = flush;
	cr_expect_eq(loopback(), -ENODEV);
	cr_expect_str_eq(test_error_text(),
			 "loopback: the GPU cannot read the memory of the tiles: "
			 "No such device");
	close(gpu.fd);
}

Test(qp, a_libibverbs_without_dma_bufs_is_refused)
{
	struct gpu gpu;

	describe_gpu(&gpu);
	verbs.reg_dmabuf_mr = NULL;
	cr_expect_eq(loopback(), -EOPNOTSUPP);
	cr_expect_str_eq(test_error_text(),
			 "fake0: cannot register the GPU memory of the tiles (dma-buf): "
			 "Operation not supported");
	cr_expect_eq(test_error_kind(), HR_ERROR_MISSING);
	close(gpu.fd);
}

static struct hr_rdma_device found;

static int find(const char *name, const char *address)
{
	int err;

	cr_assert_eq(inet_pton(AF_INET, address, &local), 1);
	err = hr_rdma_device_open(&verbs, name, local, &found, test_error());
	cr_expect_eq(found.context == NULL, err != 0);
	if (!err)
		hr_rdma_device_close(&verbs, &found);
	cr_expect(!err || test_error_kind() == HR_ERROR_MISSING);
	return err;
}

Test(qp, a_device_is_found_by_the_address_or_the_error_names_those_that_are_there)
{
	setenv("FAKE_IBVERBS_DEVICES", "fake0=10.0.0.7,fake1=127.0.0.1/3,fake2=127.0.0.1/5", 1);
	cr_expect_eq(find(NULL, "127.0.0.1"), 0);
	cr_expect_str_eq(found.name, "fake1");
	cr_expect(found.port == 1 && found.gid_index == 3 && found.mtu == IBV_MTU_1024);
	cr_expect_eq(find("fake2", "127.0.0.1"), 0);
	cr_expect(found.mtu == IBV_MTU_4096 && strcmp(found.name, "fake2") == 0);
	cr_expect_eq(find(NULL, "10.0.0.7"), 0);
	cr_expect_str_eq(found.name, "fake0");
	cr_expect_eq(find(NULL, "10.0.0.1"), -ENODEV);
	cr_expect_str_eq(test_error_text(), "no RDMA device has the address 10.0.0.1 (RoCE v2); "
					    "there are: fake0, fake1, fake2");
	cr_expect_eq(find("fake0", "127.0.0.1"), -ENODEV);
	cr_expect_eq(find("fake", "127.0.0.1"), -ENODEV);
	cr_expect_str_eq(test_error_text(), "no RDMA device fake has the address 127.0.0.1 "
					    "(RoCE v2); there are: fake0, fake1, fake2");
	link_rig_fake()->port_down = 1;
	cr_expect_eq(find("fake1", "127.0.0.1"), -ENODEV);
	cr_expect_str_eq(test_error_text(),
			 "fake1: the port with the address 127.0.0.1 is not active");
	link_rig_fake()->port_down = 0;
	/* the first one does not open */
	link_rig_fake()->fail_call = 2;
	cr_expect_eq(find(NULL, "127.0.0.1"), 0);
	cr_expect_str_eq(found.name, "fake2");
}
