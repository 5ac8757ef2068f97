/* The loopback, step by step: device and queue pairs are the test's, which copies what is written. */
#include "gpu/remote/loopback.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "config/clock.h"
#include "gpu/remote/qp.h"
#include "tests/harness/calls.h"
#include "tests/fakes/clock.h"
#include "tests/harness/error.h"

#define SLOTS 4u
#define STRIDE 128u

static struct {
	unsigned open, create; /* the nth one fails */
	int receive, connect, write, read, poll, loaded, stored, flushed;
	unsigned bad, lose, mangle, empty; /* the nth completion: failed, without immediate, with
					    * another one, not there for 5 polls */
	bool misses, reads_other;	   /* what is written or read is another place */
} will;
static unsigned opens, creates, polls;
static struct hr_rdma_qp *pair[2]; /* in the order in which they are made */
static struct ibv_qp queue[2];
static struct ibv_mr tiles[2];
static uint8_t memory_[SLOTS * STRIDE];
static uint32_t immediate_;
static struct hr_link_memory memory;

static int which(const struct hr_rdma_qp *qp)
{
	return qp == pair[0] ? 0 : 1;
}

static int failed(int err, struct hr_error *e)
{
	return err ? hr_fail(e, HR_ERROR_MISSING, err, "asked to fail") : 0;
}

int hr_rdma_device_open(const struct hr_verbs *verbs, const char *name, struct in_addr address,
			struct hr_rdma_device *device, struct hr_error *e)
{
	memset(device, 0, sizeof *device);
	snprintf(device->name, sizeof device->name, "dev0");
	device->mtu = opens ? IBV_MTU_4096 : IBV_MTU_1024;
	device->gid.raw[15] = (uint8_t)(opens + 1);
	calls_note("open %s %u;", name, address.s_addr);
	return failed(++opens == will.open ? -ENODEV : 0, e);
}

int hr_rdma_qp_create(struct hr_rdma_qp *qp, const struct hr_verbs *verbs,
		      const struct hr_rdma_device *device, const struct hr_rdma_setup *setup,
		      struct hr_error *e)
{
	cr_expect(setup->memory == &memory && setup->table && setup->table_bytes == HR_PAGE);
	calls_note("create %x %u %u;", (unsigned)setup->tile_access, setup->sends, setup->receives);
	memset(qp, 0, sizeof *qp);
	if (++creates == will.create)
		return failed(-EIO, e);
	pair[creates - 1] = qp;
	qp->verbs = verbs;
	qp->device = *device;
	queue[creates - 1].qp_num = 100 + creates;
	qp->qp = &queue[creates - 1];
	tiles[creates - 1].rkey = 50 + creates;
	qp->tiles = &tiles[creates - 1];
	qp->tile_base = 1000000 * creates;
	return 0;
}

int hr_rdma_qp_receive(struct hr_rdma_qp *qp, uint32_t count)
{
	calls_note("receive %d %u;", which(qp), count);
	return will.receive;
}

int hr_rdma_qp_connect(struct hr_rdma_qp *qp, const struct hr_rdma_peer *peer, uint32_t psn,
		       struct hr_error *e)
{
	calls_note("connect %d to %u psn %u %u mtu %d gid %u;", which(qp), peer->qp, peer->psn, psn,
		   (int)peer->mtu, peer->gid[15]);
	return failed(will.connect, e);
}

int hr_rdma_qp_write_entry(struct hr_rdma_qp *qp, const void *entry, uint32_t bytes, uint64_t to,
			   uint32_t rkey, uint32_t immediate)
{
	calls_note("write %d %u at %llu/%u;", which(qp), bytes, (unsigned long long)to, rkey);
	immediate_ = immediate;
	cr_expect_eq(memcmp(&immediate, entry, 4), 0);
	if (!will.misses)
		memcpy(memory_ + (to - 2000000), entry, bytes);
	return will.write;
}

int hr_rdma_qp_read(struct hr_rdma_qp *qp, void *to, uint32_t bytes, uint64_t from, uint32_t rkey)
{
	calls_note("read %d %u at %llu/%u;", which(qp), bytes, (unsigned long long)from, rkey);
	for (uint32_t i = 0; i < bytes; i++)
		cr_assert_eq(((uint8_t *)to)[i], 0);
	memcpy(to, memory_ + (from - 2000000), bytes);
	((uint8_t *)to)[bytes - 1] ^= will.reads_other;
	return will.read;
}

int hr_rdma_qp_poll(struct hr_rdma_qp *qp, struct hr_rdma_done *done)
{
	const unsigned nth = polls + 1;

	if (nth == will.empty)
		return will.poll;
	polls++;
	calls_note("done %d;", which(qp));
	*done = (struct hr_rdma_done){ .status = nth == will.bad ? IBV_WC_REM_ACCESS_ERR
								 : IBV_WC_SUCCESS,
				       .has_immediate = which(qp) == 1 && nth != will.lose,
				       .immediate = immediate_ ^ (nth == will.mangle) };
	return 1;
}

void hr_rdma_qp_destroy(struct hr_rdma_qp *qp)
{
	calls_note("-;");
}

static const char *status_text(enum ibv_wc_status status)
{
	return status == IBV_WC_REM_ACCESS_ERR ? "no access" : "?";
}

static int load(void *to, uint64_t at, void *data, size_t bytes)
{
	cr_expect_eq(to, &memory);
	calls_note("load %llu %zu;", (unsigned long long)at, bytes);
	memcpy(data, memory_ + at, bytes);
	return will.loaded;
}

static int store(void *to, uint64_t at, const void *data, size_t bytes)
{
	cr_expect_eq(to, &memory);
	calls_note("store %llu %zu;", (unsigned long long)at, bytes);
	memcpy(memory_ + at, data, bytes);
	return will.stored;
}

static int flush(void *to)
{
	cr_expect_eq(to, &memory);
	calls_note("flush;");
	return will.flushed;
}

static void begin(void)
{
	memset(&will, 0, sizeof will);
	opens = creates = polls = 0;
	calls_take();
	memory = (struct hr_link_memory){ .base = memory_,
					  .bytes = sizeof memory_,
					  .dmabuf = -1,
					  .slots = SLOTS,
					  .stride = STRIDE,
					  .load = load,
					  .store = store,
					  .to = &memory };
}

static void end(void)
{
	fake_clock_stop();
}

TestSuite(loopback_calls, .init = begin, .fini = end, .timeout = 60);

static int loopback(void)
{
	static const struct hr_verbs verbs = { .wc_status_str = status_text };
	const struct in_addr address = { 7 };

	fake_clock_start(1000, NULL, NULL);
	return hr_rdma_loopback(&verbs, "dev0", address, &memory, test_error());
}

#define OPEN(access) "open dev0 7;create " access " 8 8;open dev0 7;create " access " 8 8;"
#define IN(at) "write 0 64 at " at "/52;done 0;done 1;"

Test(loopback_calls, the_first_and_the_last_slot_are_written)
{
	cr_expect_eq(loopback(), 0);
	cr_expect_str_eq(calls_text(),
			 OPEN("3") "receive 1 4;connect 1 to 101 psn 1 1 mtu 3 gid 1;receive 0 4;"
				   "connect 0 to 102 psn 1 1 mtu 5 gid 2;" IN("2000000")
					   IN("2000384") "-;-;",
			 "%s", calls_text());
	begin();
	memory.slots = 1;
	cr_expect_eq(loopback(), 0);
	cr_expect_null(strstr(calls_text(), "2000384"), "%s", calls_text());
	cr_expect_not_null(strstr(calls_text(), IN("2000000") "-;-;"), "%s", calls_text());
}

Test(loopback_calls, gpu_memory_is_written_and_read_by_both_sides)
{
	memory.dmabuf = 0;
	memory.flush = flush;
	cr_expect_eq(loopback(), 0, "%s", test_error_text());
	cr_expect(strstr(calls_text(), OPEN("7")) == calls_text(), "%s", calls_text());
	cr_expect_not_null(
		strstr(calls_text(),
		       IN("2000000") "flush;load 0 64;store 0 64;read 0 64 at 2000000/52;done 0;" IN(
			       "2000384") "flush;load 384 64;store 384 64;"
					  "read 0 64 at 2000384/52;done 0;-;-;"),
		"%s", calls_text());
	begin();
	memory.dmabuf = 0;
	cr_expect_eq(loopback(), 0);
	cr_expect_null(strstr(calls_text(), "flush"), "%s", calls_text());
}

Test(loopback_calls, each_failure_is_named_and_undoes_all)
{
	static const char lost[] = "dev0: loopback: the immediate is lost";
	static const struct {
		unsigned open, create, bad, lose, mangle;
		int receive, connect, write, read, loaded, stored, flushed;
		bool misses, reads_other, gpu;
		int err;
		const char *text;
	} row[] = {
		{ .open = 1, .err = -ENODEV, .text = "asked to fail" },
		{ .open = 2, .err = -ENODEV, .text = "asked to fail" },
		{ .create = 1, .err = -EIO, .text = "asked to fail" },
		{ .create = 2, .err = -EIO, .text = "asked to fail" },
		{ .receive = -ENOMEM, .err = -ENOMEM, .text = "loopback: Cannot allocate memory" },
		{ .connect = -EINVAL, .err = -EINVAL, .text = "asked to fail" },
		{ .write = -ENOMEM, .err = -ENOMEM, .text = "loopback: Cannot allocate memory" },
		{ .bad = 1, .err = -EIO, .text = "dev0: loopback: no access" },
		{ .bad = 2, .err = -EIO, .text = "dev0: loopback: no access" },
		{ .bad = 4, .err = -EIO, .text = "dev0: loopback: no access" },
		{ .lose = 2, .err = -EIO, .text = lost },
		{ .mangle = 2, .err = -EIO, .text = lost },
		{ .mangle = 4, .err = -EIO, .text = lost },
		{ .misses = true,
		  .err = -EIO,
		  .text = "dev0: loopback: the device does not reach the memory of the tiles" },
		{ .gpu = true,
		  .flushed = -EPERM,
		  .err = -EPERM,
		  .text = "loopback: the GPU cannot read the memory of the tiles: Operation not "
			  "permitted" },
		{ .gpu = true,
		  .loaded = -EPERM,
		  .err = -EPERM,
		  .text = "loopback: the GPU cannot read the memory of the tiles: Operation not "
			  "permitted" },
		{ .gpu = true,
		  .stored = -EPERM,
		  .err = -EPERM,
		  .text = "loopback: the GPU cannot write the memory of the tiles: Operation not "
			  "permitted" },
		{ .gpu = true,
		  .read = -ENOMEM,
		  .err = -ENOMEM,
		  .text = "loopback: Cannot allocate memory" },
		{ .gpu = true, .bad = 3, .err = -EIO, .text = "dev0: loopback: no access" },
		{ .gpu = true,
		  .reads_other = true,
		  .err = -EIO,
		  .text = "dev0: loopback: the device reads other memory than that of the tiles" },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		begin();
		will.open = row[i].open;
		will.create = row[i].create;
		will.bad = row[i].bad;
		will.lose = row[i].lose;
		will.mangle = row[i].mangle;
		will.receive = row[i].receive;
		will.connect = row[i].connect;
		will.write = row[i].write;
		will.read = row[i].read;
		will.loaded = row[i].loaded;
		will.stored = row[i].stored;
		will.flushed = row[i].flushed;
		will.misses = row[i].misses;
		will.reads_other = row[i].reads_other;
		memory.dmabuf = row[i].gpu ? 0 : -1;
		memory.flush = row[i].gpu ? flush : NULL;
		memset(memory_, 0, sizeof memory_);
		cr_expect_eq(loopback(), row[i].err, "row %zu", i);
		cr_expect_str_eq(test_error_text(), row[i].text, "row %zu: %s", i,
				 test_error_text());
		cr_expect(strlen(calls_text()) > 4 &&
				  strcmp(calls_text() + strlen(calls_text()) - 4, "-;-;") == 0,
			  "row %zu: %s", i, calls_text());
	}
}

/* Two seconds for each completion, looked for each 100 us. */
Test(loopback_calls, a_completion_that_does_not_come_is_waited_for)
{
	uint64_t before;

	will.empty = 2;
	before = fake_clock_waits();
	cr_expect_eq(loopback(), -EIO);
	cr_expect_eq(fake_clock_waits() - before, 20000);
	cr_expect_str_eq(test_error_text(), "dev0: loopback: no completion");
	begin();
	will.empty = 1;
	will.poll = -EIO;
	before = fake_clock_waits();
	cr_expect_eq(loopback(), -EIO);
	cr_expect_eq(fake_clock_waits(), before);
	cr_expect_str_eq(test_error_text(), "dev0: loopback: no completion");
}
