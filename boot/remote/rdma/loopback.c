/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/remote/rdma/device.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "config/base/clock.h"
#include "config/base/seam.h"
#include "boot/remote/rdma/qp.h"

#define PATTERN_BYTES HR_RDMA_INLINE
#define LIMIT_NS (2 * HR_NS_PER_S)

/* Sends and receives are on two queue pairs: not every driver connects one to itself. */
struct pair {
	struct hr_rdma_qp from, to;
	const struct hr_rdma_memory *memory;
	uint8_t *page;
};

static int make_loopback_qp(struct pair *pair, struct hr_rdma_qp *qp, const struct hr_verbs *verbs,
			    const char *name, struct in_addr address, struct hr_error *e)
{
	const struct hr_rdma_qp_setup setup = {
		.memory = pair->memory,
		.tile_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			       (pair->memory->dmabuf < 0 ? 0 : IBV_ACCESS_REMOTE_READ),
		.table = pair->page,
		.table_bytes = HR_PAGE,
		.sends = 8,
		.receives = 8,
	};
	struct hr_rdma_device device;
	int err = hr_rdma_device_open(verbs, name, address, &device, e);

	return err ? err : hr_rdma_qp_create(qp, verbs, &device, &setup, e);
}

static int connect_loopback_qp(struct hr_rdma_qp *qp, const struct hr_rdma_qp *other,
			       struct hr_error *e)
{
	struct hr_rdma_remote_qp peer = { .qp = other->qp->qp_num,
					  .psn = 1,
					  .mtu = other->device.mtu };
	int err = hr_rdma_qp_post_recv(qp, 4);

	memcpy(peer.gid, other->device.gid.raw, sizeof(peer.gid));
	return err ? err : hr_rdma_qp_connect(qp, &peer, 1, e);
}

/* Wait for one completion of the queue pair. */
static int wait_done(struct hr_rdma_qp *qp, struct hr_rdma_completion *done, struct hr_error *e)
{
	const uint64_t end = hr_now_ns() + LIMIT_NS;
	int n;

	while ((n = hr_rdma_qp_poll(qp, done)) == 0 && hr_now_ns() < end)
		hr_wait_ns(100000);
	if (n == 1 && done->status == IBV_WC_SUCCESS)
		return 0;
	return hr_fail(e, HR_ERROR_DEVICE, -EIO, "%s: loopback: %s", qp->device.name,
		       n == 1 ? qp->verbs->wc_status_str(done->status) : "no completion");
}

/* As workers read the memory. */
static int load_pattern(const struct pair *pair, uint64_t at, uint8_t *got, struct hr_error *e)
{
	const struct hr_rdma_memory *m = pair->memory;
	int err = 0;

	if (m->dmabuf < 0)
		memcpy(got, (const uint8_t *)m->base + at, PATTERN_BYTES);
	else if (m->flush)
		err = m->flush(m->to);
	if (!err && m->dmabuf >= 0)
		err = m->load(m->to, at, got, PATTERN_BYTES);
	return err ? hr_fail(e, HR_ERROR_DEVICE, err,
			     "loopback: the GPU cannot read the memory of the tiles: %s",
			     strerror(-err))
		   : 0;
}

/* The device writes, workers read. */
static int prove_in(struct pair *pair, uint64_t at, struct hr_error *e)
{
	uint8_t pattern[PATTERN_BYTES], got[PATTERN_BYTES];
	uint32_t immediate;
	struct hr_rdma_completion sent, received;
	int err = hr_random(pattern, sizeof(pattern));

	memcpy(&immediate, pattern, sizeof(immediate));
	if (!err)
		err = hr_rdma_qp_post_write_imm(&pair->from, pattern, sizeof(pattern),
						pair->to.tile_base + at, pair->to.tiles->rkey,
						immediate);
	if (!err)
		err = wait_done(&pair->from, &sent, e);
	if (!err)
		err = wait_done(&pair->to, &received, e);
	if (!err)
		err = load_pattern(pair, at, got, e);
	if (err)
		return err;
	if (!received.has_immediate || received.immediate != immediate)
		return hr_fail(e, HR_ERROR_DEVICE, -EIO, "%s: loopback: the immediate is lost",
			       pair->from.device.name);
	if (memcmp(pattern, got, sizeof(got)) != 0)
		return hr_fail(e, HR_ERROR_DEVICE, -EIO,
			       "%s: loopback: the device does not reach the memory of the tiles",
			       pair->from.device.name);
	return 0;
}

/* Workers write, the device reads. Only for GPU memory: its addresses for the device are the GPU
 * driver's, and an IOMMU can make them wrong. */
static int prove_out(struct pair *pair, uint64_t at, struct hr_error *e)
{
	const struct hr_rdma_memory *m = pair->memory;
	uint8_t pattern[PATTERN_BYTES];
	struct hr_rdma_completion done;
	int err = hr_random(pattern, sizeof(pattern));

	if (!err)
		err = m->store(m->to, at, pattern, sizeof(pattern));
	if (err)
		return hr_fail(e, HR_ERROR_DEVICE, err,
			       "loopback: the GPU cannot write the memory of the tiles: %s",
			       strerror(-err));
	memset(pair->page, 0, PATTERN_BYTES);
	err = hr_rdma_qp_post_read(&pair->from, pair->page, PATTERN_BYTES, pair->to.tile_base + at,
				   pair->to.tiles->rkey);
	if (!err)
		err = wait_done(&pair->from, &done, e);
	if (!err && memcmp(pattern, pair->page, sizeof(pattern)) != 0)
		err = hr_fail(e, HR_ERROR_DEVICE, -EIO,
			      "%s: loopback: the device reads other memory than that of the tiles",
			      pair->from.device.name);
	return err;
}

static int prove_at(struct pair *pair, uint64_t at, struct hr_error *e)
{
	const int err = prove_in(pair, at, e);

	return err || pair->memory->dmabuf < 0 ? err : prove_out(pair, at, e);
}

static int prove(struct pair *pair, struct hr_error *e)
{
	const uint64_t last = (uint64_t)(pair->memory->slots - 1) * pair->memory->stride;
	int err = connect_loopback_qp(&pair->to, &pair->from, e);

	if (!err)
		err = connect_loopback_qp(&pair->from, &pair->to, e);
	if (!err)
		err = prove_at(pair, 0, e);
	return err || !last ? err : prove_at(pair, last, e);
}

int hr_rdma_loopback(const struct hr_verbs *verbs, const char *name, struct in_addr address,
		     const struct hr_rdma_memory *memory, struct hr_error *e)
{
	struct pair pair = { .memory = memory };
	int err;

	pair.page = mmap(NULL, HR_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (pair.page == MAP_FAILED)
		return hr_fail(e, HR_ERROR_FAILED, -ENOMEM, "loopback: no memory");
	err = make_loopback_qp(&pair, &pair.from, verbs, name, address, e);
	if (!err)
		err = make_loopback_qp(&pair, &pair.to, verbs, name, address, e);
	if (!err)
		err = prove(&pair, e);
	if (err && e)
		hr_fail(e, HR_ERROR_DEVICE, err, "loopback: %s", strerror(-err));
	hr_rdma_qp_destroy(&pair.from);
	hr_rdma_qp_destroy(&pair.to);
	munmap(pair.page, HR_PAGE);
	return err;
}
