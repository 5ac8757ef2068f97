/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "tests/fakes/ibverbs/fake.h"

#undef ibv_reg_mr
#undef ibv_query_port

struct fake_ibverbs fake_ibverbs;

/* Every call that moves packets does it for all devices of the process, as hardware needs no call. */
pthread_mutex_t fake_lock = PTHREAD_MUTEX_INITIALIZER;
static struct fake_context *contexts[FAKE_CONTEXTS];

bool fake_call_fails(void)
{
	if (!fake_ibverbs.fail_call || --fake_ibverbs.fail_call != 0)
		return false;
	errno = ENOSPC;
	return true;
}

static bool call_fails(void)
{
	bool fails;

	pthread_mutex_lock(&fake_lock);
	fails = fake_call_fails();
	pthread_mutex_unlock(&fake_lock);
	return fails;
}

static void add_to(unsigned *counter, int by)
{
	pthread_mutex_lock(&fake_lock);
	*counter += (unsigned)by;
	pthread_mutex_unlock(&fake_lock);
}

void fake_progress(void)
{
	for (unsigned i = 0; i < FAKE_CONTEXTS; i++)
		if (contexts[i])
			fake_wire_progress(contexts[i]);
}

static struct device {
	struct ibv_device device; /* first */
	struct in_addr address;
	enum ibv_mtu mtu;
} devices[FAKE_DEVICES];
static int device_count = -1;

static void read_faults(void)
{
	static const struct {
		const char *name;
		unsigned *value;
	} all[] = {
		{ "cut=", &fake_ibverbs.cut },
		{ "lose=", &fake_ibverbs.lose },
		{ "fail=", &fake_ibverbs.fail },
		{ "deaf=", &fake_ibverbs.deaf },
		{ "blind=", &fake_ibverbs.blind },
		{ "no_immediate=", &fake_ibverbs.no_immediate },
		{ "stall=", &fake_ibverbs.stall },
		{ "reg_error=", &fake_ibverbs.reg_error },
		{ "port_down=", &fake_ibverbs.port_down },
	};
	const char *text = getenv("FAKE_IBVERBS_FAULTS");

	for (size_t i = 0; text && i < sizeof all / sizeof *all; i++) {
		const char *at = strstr(text, all[i].name);

		if (at)
			*all[i].value = (unsigned)strtoul(at + strlen(all[i].name), NULL, 0);
	}
}

static void read_devices(void)
{
	const char *text = getenv("FAKE_IBVERBS_DEVICES");
	char copy[512], *save = NULL;

	device_count = 0;
	if (!getenv("FAKE_IBVERBS_DIR"))
		return;
	snprintf(copy, sizeof(copy), "%s", text ? text : "fake0=127.0.0.1");
	for (char *item = strtok_r(copy, ",", &save); item && device_count < (int)FAKE_DEVICES;
	     item = strtok_r(NULL, ",", &save)) {
		struct device *d = &devices[device_count];
		char address[32] = "";
		unsigned mtu = IBV_MTU_1024;

		if (sscanf(item, "%63[^=]=%31[0-9.]/%u", d->device.name, address, &mtu) < 2 ||
		    inet_pton(AF_INET, address, &d->address) != 1)
			continue;
		d->mtu = (enum ibv_mtu)mtu;
		device_count++;
	}
}

struct ibv_device **ibv_get_device_list(int *count)
{
	struct ibv_device **list;

	if (device_count < 0) {
		read_devices();
		read_faults();
	}
	list = calloc((size_t)device_count + 1, sizeof(struct ibv_device *));
	for (int i = 0; list && i < device_count; i++)
		list[i] = &devices[i].device;
	if (count)
		*count = device_count;
	return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
	free(list);
}

const char *ibv_get_device_name(struct ibv_device *device)
{
	return device->name;
}

int ibv_query_port(struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *compat)
{
	struct ibv_port_attr attr = { .state = fake_ibverbs.port_down ? IBV_PORT_DOWN
								      : IBV_PORT_ACTIVE };

	if (port != 1)
		return EINVAL;
	attr.active_mtu = attr.max_mtu = devices[((struct fake_context *)context)->device].mtu;
	memcpy((void *)compat, &attr, offsetof(struct ibv_port_attr, flags));
	return 0;
}

ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries, size_t max,
			     uint32_t flags, size_t entry_bytes)
{
	const struct device *d = &devices[((struct fake_context *)context)->device];
	struct ibv_gid_entry entry = { .gid_index = 0,
				       .port_num = 1,
				       .gid_type = IBV_GID_TYPE_ROCE_V1,
				       .gid.raw = { [10] = 0xff, [11] = 0xff } };

	if (max < 2 || flags || entry_bytes != sizeof(entry))
		return -EINVAL;
	memcpy(entry.gid.raw + 12, &d->address, 4);
	entries[0] = entry;
	entry.gid_index = 3;
	entry.gid_type = IBV_GID_TYPE_ROCE_V2;
	entries[1] = entry;
	return 2;
}

enum ibv_mtu fake_mtu(const struct fake_context *context)
{
	return devices[context->device].mtu;
}

/* ---- memory */

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	struct ibv_pd *pd = call_fails() ? NULL : calloc(1, sizeof(*pd));

	if (!pd)
		return NULL;
	pd->context = context;
	add_to(&fake_ibverbs.pds, 1);
	return pd;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
	const struct fake_context *context = (struct fake_context *)pd->context;

	for (unsigned i = 0; i < FAKE_MRS; i++)
		if (context->mr[i] && context->mr[i]->mr.pd == pd)
			return EBUSY;
	add_to(&fake_ibverbs.pds, -1);
	free(pd);
	return 0;
}

static struct ibv_mr *make_mr_locked(struct ibv_pd *pd, uint8_t *at, size_t bytes, uint64_t iova,
				     int access)
{
	struct fake_context *context = (struct fake_context *)pd->context;
	struct fake_mr *mr = NULL;
	unsigned place = 0;

	if (fake_call_fails())
		return NULL;
	if (fake_ibverbs.reg_error) {
		errno = (int)fake_ibverbs.reg_error;
		return NULL;
	}
	while (place < FAKE_MRS && context->mr[place])
		place++;
	if ((access & IBV_ACCESS_REMOTE_WRITE) && !(access & IBV_ACCESS_LOCAL_WRITE)) {
		errno = EINVAL;
		return NULL;
	}
	if (place < FAKE_MRS)
		mr = calloc(1, sizeof(*mr));
	if (!mr)
		return NULL;
	if (getrandom(&mr->mr.rkey, sizeof(mr->mr.rkey), 0) != sizeof(mr->mr.rkey)) {
		free(mr);
		return NULL;
	}
	mr->mr.rkey = (mr->mr.rkey & ~(FAKE_MRS - 1)) | place;
	mr->mr.lkey = mr->mr.rkey;
	mr->mr.pd = pd;
	mr->mr.context = pd->context;
	mr->mr.addr = at;
	mr->mr.length = bytes;
	mr->access = access;
	mr->iova = iova;
	mr->at = at;
	context->mr[place] = mr;
	fake_ibverbs.mrs++;
	return &mr->mr;
}

static struct ibv_mr *make_mr(struct ibv_pd *pd, uint8_t *at, size_t bytes, uint64_t iova,
			      int access)
{
	struct ibv_mr *result;

	pthread_mutex_lock(&fake_lock);
	result = make_mr_locked(pd, at, bytes, iova, access);
	pthread_mutex_unlock(&fake_lock);
	return result;
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *at, size_t bytes, int access)
{
	return make_mr(pd, at, bytes, (uint64_t)(uintptr_t)at, access);
}

struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t bytes, uint64_t iova,
				 int fd, int access)
{
	uint8_t *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)offset);
	const int err = at == MAP_FAILED ? errno : 0;
	struct ibv_mr *mr = NULL;
	bool gpu = false;

	if (err) {
		pthread_mutex_lock(&fake_lock);
		gpu = fake_gpu_has(iova);
		pthread_mutex_unlock(&fake_lock);
	}
	errno = offset % 4096 != iova % 4096 ? EINVAL : err;
	if (!errno || (err && gpu))
		mr = make_mr(pd, gpu ? (uint8_t *)(uintptr_t)iova : at, bytes, iova, access);
	if (!mr && !err)
		munmap(at, bytes);
	if (mr) {
		((struct fake_mr *)mr)->mapped = !gpu;
		((struct fake_mr *)mr)->gpu = gpu;
	}
	return mr;
}

static int ibv_dereg_mr_locked(struct ibv_mr *handle)
{
	struct fake_context *context = (struct fake_context *)handle->context;
	struct fake_mr *mr = (struct fake_mr *)handle;

	context->mr[handle->rkey % FAKE_MRS] = NULL;
	if (mr->mapped)
		munmap(mr->at, handle->length);
	fake_ibverbs.mrs--;
	free(mr);
	return 0;
}

int ibv_dereg_mr(struct ibv_mr *handle)
{
	int result;

	pthread_mutex_lock(&fake_lock);
	result = ibv_dereg_mr_locked(handle);
	pthread_mutex_unlock(&fake_lock);
	return result;
}

const struct fake_mr *fake_reach(const struct fake_context *context, uint32_t key, uint64_t address,
				 uint64_t bytes, int access, const struct ibv_pd *pd)
{
	const struct fake_mr *mr = context->mr[key % FAKE_MRS];

	if (!mr || mr->mr.rkey != key || mr->mr.pd != pd || (mr->access & access) != access ||
	    address < mr->iova || address - mr->iova > mr->mr.length ||
	    bytes > mr->mr.length - (address - mr->iova))
		return NULL;
	return mr;
}

bool fake_load(const struct fake_mr *mr, uint64_t address, void *to, uint32_t bytes)
{
	if (mr->gpu)
		return fake_gpu_load(address, to, bytes);
	memcpy(to, mr->at + (address - mr->iova), bytes);
	return true;
}

bool fake_store(const struct fake_mr *mr, uint64_t address, const void *from, uint32_t bytes)
{
	if (mr->gpu)
		return fake_gpu_store(address, from, bytes);
	memcpy(mr->at + (address - mr->iova), from, bytes);
	return true;
}

/* ---- completions */

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
	struct fake_channel *channel = call_fails() ? NULL : calloc(1, sizeof(*channel));
	struct epoll_event wake = { .events = EPOLLIN };

	if (!channel)
		return NULL;
	channel->channel.context = context;
	channel->channel.fd = epoll_create1(EPOLL_CLOEXEC);
	channel->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	epoll_ctl(channel->channel.fd, EPOLL_CTL_ADD, channel->event, &wake);
	return &channel->channel;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	if (channel->refcnt)
		return EBUSY;
	close(channel->fd);
	close(((struct fake_channel *)channel)->event);
	free(channel);
	return 0;
}

void fake_complete(struct ibv_cq *handle, const struct ibv_wc *wc, bool solicited)
{
	struct fake_cq *cq = (struct fake_cq *)handle;
	const uint64_t one = 1;

	if (fake_ibverbs.lose && !solicited) {
		fake_ibverbs.lose--;
		return;
	}
	if (cq->count == cq->size)
		abort(); /* an overrun: the user of the library has counted wrongly */
	cq->entry[(cq->head + cq->count++) % cq->size] = *wc;
	if (fake_ibverbs.twice && !solicited && cq->count < cq->size) {
		fake_ibverbs.twice--;
		cq->entry[(cq->head + cq->count++) % cq->size] = *wc;
	}
	if (cq->armed && handle->channel) {
		cq->armed = false;
		cq->events++;
		if (write(((struct fake_channel *)handle->channel)->event, &one, sizeof(one)) < 0)
			abort();
	}
}

static int poll_cq(struct ibv_cq *handle, int count, struct ibv_wc *wc)
{
	struct fake_cq *cq = (struct fake_cq *)handle;
	int n = 0;

	pthread_mutex_lock(&fake_lock);
	if (fake_ibverbs.fail_poll) {
		fake_ibverbs.fail_poll--;
		n = -1;
	}
	fake_progress();
	for (; n >= 0 && n < count && cq->count; n++) {
		wc[n] = cq->entry[cq->head];
		cq->head = (cq->head + 1) % cq->size;
		cq->count--;
	}
	pthread_mutex_unlock(&fake_lock);
	return n;
}

static int req_notify_cq(struct ibv_cq *handle, int solicited_only)
{
	if (call_fails())
		return ENOSPC;
	pthread_mutex_lock(&fake_lock);
	((struct fake_cq *)handle)->armed = true;
	pthread_mutex_unlock(&fake_lock);
	return 0;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int entries, void *owner,
			     struct ibv_comp_channel *channel, int vector)
{
	struct fake_cq *cq = call_fails() ? NULL : calloc(1, sizeof(*cq));

	if (!cq)
		return NULL;
	cq->size = (unsigned)entries;
	cq->entry = calloc(cq->size, sizeof(*cq->entry));
	cq->cq.context = context;
	cq->cq.channel = channel;
	cq->cq.cq_context = owner;
	cq->cq.cqe = entries;
	if (channel)
		channel->refcnt++;
	add_to(&fake_ibverbs.cqs, 1);
	return &cq->cq;
}

int ibv_destroy_cq(struct ibv_cq *handle)
{
	struct fake_cq *cq = (struct fake_cq *)handle;

	if (handle->channel)
		handle->channel->refcnt--;
	add_to(&fake_ibverbs.cqs, -1);
	free(cq->entry);
	free(cq);
	return 0;
}

int ibv_get_cq_event(struct ibv_comp_channel *handle, struct ibv_cq **cq, void **owner)
{
	struct fake_channel *channel = (struct fake_channel *)handle;
	uint64_t count;

	if (read(channel->event, &count, sizeof(count)) != sizeof(count))
		return -1;
	*cq = NULL; /* one queue for each channel; the caller knows it */
	*owner = NULL;
	return 0;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned events)
{
	pthread_mutex_lock(&fake_lock);
	((struct fake_cq *)cq)->events -= events;
	pthread_mutex_unlock(&fake_lock);
}

/* ---- devices */

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	struct fake_context *context = call_fails() ? NULL : calloc(1, sizeof(*context));
	unsigned place = 0;

	if (!context)
		return NULL;
	context->context.device = device;
	context->context.ops.poll_cq = poll_cq;
	context->context.ops.req_notify_cq = req_notify_cq;
	context->context.ops.post_send = fake_post_send;
	context->context.ops.post_recv = fake_post_recv;
	context->device = (unsigned)((struct device *)device - devices);
	pthread_mutex_lock(&fake_lock);
	fake_ibverbs.contexts++;
	while (place < FAKE_CONTEXTS && contexts[place])
		place++;
	if (place == FAKE_CONTEXTS)
		abort();
	contexts[place] = context;
	pthread_mutex_unlock(&fake_lock);
	return &context->context;
}

static int ibv_close_device_locked(struct ibv_context *context)
{
	fake_ibverbs.contexts--;
	for (unsigned i = 0; i < FAKE_CONTEXTS; i++)
		if (contexts[i] == (struct fake_context *)context)
			contexts[i] = NULL;
	free(context);
	return 0;
}

int ibv_close_device(struct ibv_context *context)
{
	int result;

	pthread_mutex_lock(&fake_lock);
	result = ibv_close_device_locked(context);
	pthread_mutex_unlock(&fake_lock);
	return result;
}

const char *ibv_wc_status_str(enum ibv_wc_status status)
{
	switch (status) {
	case IBV_WC_SUCCESS:
		return "success";
	case IBV_WC_WR_FLUSH_ERR:
		return "Work Request Flushed Error";
	case IBV_WC_REM_ACCESS_ERR:
		return "remote access error";
	case IBV_WC_RETRY_EXC_ERR:
		return "transport retry counter exceeded";
	case IBV_WC_RNR_RETRY_EXC_ERR:
		return "RNR retry counter exceeded";
	default:
		return "another error";
	}
}
