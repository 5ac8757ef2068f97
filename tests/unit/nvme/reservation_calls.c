/*
 * Reservations command by command: which commands with which keys, in which order, and what follows
 * when the n-th one fails. The test plays the controller and the machine's lock;
 * tests/unit/boot/engine/reservation.c has a whole controller.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <nvme/types.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "config/bytes.h"
#include "nvme/admin.h"
#include "nvme/reservation.h"
#include "tests/fakes/log.h"
#include "tests/harness/calls.h"
#include "tests/harness/error.h"

#define ROWS(a) (sizeof(a) / sizeof((a)[0]))
#define LOCK 900
#define FOLDER "/run/headrace-locks"
#define KEY 0x51
#define DATA_BUS 0x77000ull
#define SKIP 99 /* in place of a number: no command fails */

TestSuite(reservation_calls, .timeout = 60);

static struct hr_transport transport;
static struct hr_ctrl ctrl;
static uint8_t data[HR_PAGE] __attribute__((aligned(8)));
static struct hr_nvme_blk disk;
static struct hr_resv_host self;

/*
 * A report is the type and the registrants: one letter each, which fills the Host Identifier and is
 * the key; an upper case letter holds the reservation. "1aS": Write Exclusive, held by s.
 */
static struct {
	bool on;
	int open_error, lock_error;
	unsigned nth;	       /* this command fails, from 0, */
	int err;	       /* with this error, */
	int later;	       /* and each later one with this */
	const char *report[2]; /* the first, and all others */
	uint8_t host;	       /* the letter of the Host Identifier that the controller has */
	unsigned commands, reports;
} fake;

static int next_error(void)
{
	const unsigned nth = fake.commands++;

	return nth == fake.nth ? fake.err : nth > fake.nth ? fake.later : 0;
}

/* ---- the lock of the machine */

int openat(int folder, const char *name, int flags, ...)
{
	if (!fake.on || folder == AT_FDCWD)
		return (int)syscall(SYS_openat, folder, name, flags, 0600);
	cr_expect(flags == (O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC));
	calls_note("open %s ", name);
	errno = fake.open_error;
	return errno ? -1 : LOCK;
}

int fcntl(int fd, int command, ...)
{
	const struct flock *lock;
	va_list list;

	va_start(list, command);
	lock = va_arg(list, void *);
	va_end(list);
	if (fd != LOCK)
		return (int)syscall(SYS_fcntl, fd, command, lock);
	cr_expect(command == F_OFD_SETLK && lock->l_type == F_WRLCK && !lock->l_len);
	calls_note("lock ");
	errno = fake.lock_error;
	return errno ? -1 : 0;
}

int close(int fd)
{
	if (fd != LOCK)
		return (int)syscall(SYS_close, fd);
	calls_note("close ");
	errno = EINTR; /* of an earlier call: it means nothing after a success */
	return 0;
}

/* ---- the controller */

int hr_admin(struct hr_ctrl *to, struct hr_sqe *sqe, uint32_t *dw0, struct hr_error *e)
{
	const size_t bytes = ctrl.long_host_id ? 16 : 8;
	const int err = next_error();

	cr_expect(to == &ctrl && sqe->prp1 == DATA_BUS && sqe->cdw10 == 0x81 && !dw0);
	cr_expect_eq(sqe->cdw11, (uint32_t)ctrl.long_host_id);
	if (sqe->opcode == nvme_admin_set_features) {
		calls_note("host ");
		cr_expect_arr_eq(data, self.id, bytes);
		cr_expect(hr_is_zero(data + bytes, sizeof data - bytes));
	} else {
		calls_note("host? ");
		cr_expect_eq(sqe->opcode, nvme_admin_get_features);
		cr_expect(hr_is_zero(data, sizeof data));
		memset(data, fake.host, bytes);
	}
	return err;
}

static void fill_report(uint8_t *to, const char *text)
{
	const size_t each = ctrl.long_host_id ? 64 : 24;

	memset(to, 0, HR_PAGE);
	to[4] = (uint8_t)(text[0] - '0');
	for (unsigned i = 1; text[i]; i++) {
		uint8_t *at = to + each * i;
		const uint8_t id = (uint8_t)(text[i] | 0x20);

		to[5]++;
		at[2] = text[i] != id;
		at[ctrl.long_host_id ? 8 : 16] = id;
		memset(at + (ctrl.long_host_id ? 16 : 8), id, ctrl.long_host_id ? 16 : 8);
	}
}

int hr_nvme_blk_command(struct hr_nvme_blk *to, const struct hr_sqe *sqe, void *buffer,
			size_t bytes, bool to_host, struct hr_error *e)
{
	static const struct {
		uint8_t opcode;
		const char *name;
	} name[] = { { 0x0d, "register" }, { 0x11, "acquire" }, { 0x15, "release" } };
	const uint64_t *key = buffer;
	const int err = next_error();

	cr_expect_eq(to, &disk);
	cr_expect_eq(to_host, sqe->opcode == 0x0e);
	if (to_host) {
		cr_expect(bytes == HR_PAGE && sqe->cdw10 == HR_PAGE / 4 - 1);
		calls_note("report%u ", sqe->cdw11);
		fill_report(buffer, fake.report[fake.reports++ ? 1 : 0]);
		return err;
	}
	for (size_t i = 0; i < ROWS(name); i++)
		if (name[i].opcode == sqe->opcode)
			calls_note("%s %x %llx", name[i].name, sqe->cdw10,
				   (unsigned long long)key[0]);
	cr_expect_eq(bytes, sqe->opcode == 0x15 ? 8u : 16u);
	if (bytes == 16)
		calls_note(",%llx", (unsigned long long)key[1]);
	calls_note(" ");
	return err;
}

/* ---- the host under test */

static void start(bool long_host_id)
{
	memset(&fake, 0, sizeof fake);
	calls_take();
	memset(&disk, 0, sizeof disk);
	memset(&ctrl, 0, sizeof ctrl);
	fake.nth = SKIP;
	fake.report[0] = fake.report[1] = "0";
	snprintf(transport.name, sizeof transport.name, "transport");
	ctrl.transport = &transport;
	ctrl.oncs = NVME_CTRL_ONCS_RESERVATIONS;
	ctrl.long_host_id = long_host_id;
	ctrl.admin_data = data;
	ctrl.admin_data_bus.addr = DATA_BUS;
	snprintf(ctrl.serial, sizeof ctrl.serial, "serial");
	memset(data, 0xee, sizeof data);
	disk.ctrl = &ctrl;
	disk.blk.name = "dev";
	disk.ns = (struct hr_ns){ .nsid = 3, .rescap = NVME_NS_RESCAP_WE | NVME_NS_RESCAP_EA };
	memset(disk.ns.eui64, 0x0e, sizeof disk.ns.eui64);
	disk.ns.shared = true;
	memset(self.id, 's', sizeof self.id);
	self.key = KEY;
	fake.on = true;
}

#define LOCKED "open ns-3-0e0e0e0e0e0e0e0e lock "
#define BEGIN LOCKED "host report1 "
#define NEW "register 80000000 0,51 "
#define AGAIN "register 8000000a 0,51 "
#define LEAVE "register 1 51,0 "
#define DEV "dev: namespace 3: "
#define LOST "Reservation Conflict: another host holds the reservation of the namespace (083)"

struct act {
	const char *report, *again; /* the first report, and each later one */
	unsigned nth;
	int err, later, want;
	const char *calls, *says; /* says: the error's text, "" for none */
};

static void check(const struct act *row, size_t i, int err)
{
	fake.on = false;
	cr_expect_eq(err, row->want, "row %zu: %d", i, err);
	cr_expect_str_eq(calls_text(), row->calls, "row %zu: %s", i, calls_text());
	cr_expect_str_eq(test_error_text(), row->says, "row %zu: %s", i, test_error_text());
	if (row->says[0] && row->want > 0)
		cr_expect_eq(test_error_kind(), HR_ERROR_DEVICE);
}

static void prepare(const struct act *row, bool long_host_id)
{
	start(long_host_id);
	fake.report[0] = row->report;
	fake.report[1] = row->again;
	fake.nth = row->nth;
	fake.err = row->err;
	fake.later = row->later;
}

static const struct act taken[] = {
	{ "0", "", SKIP, 0, 0, 0, BEGIN NEW "acquire 100 51,0 ", "" },
	{ "0ab", "", SKIP, 0, 0, 0, BEGIN NEW "acquire 100 51,0 ", "" },
	{ "0as", "", SKIP, 0, 0, 0, BEGIN AGAIN "acquire 100 51,0 ", "" },
	{ "1aS", "", SKIP, 0, 0, 0, BEGIN AGAIN "acquire 100 51,0 ", "" },
	{ "3aS", "", SKIP, 0, 0, 0, BEGIN AGAIN "release 300 51 acquire 100 51,0 ", "" },
	{ "6s", "", SKIP, 0, 0, 0, BEGIN AGAIN "release 600 51 acquire 100 51,0 ", "" },
	{ "1A", "", SKIP, 0, 0, -EBUSY, BEGIN "close ", "" },
	{ "5sa", "", SKIP, 0, 0, -EBUSY, BEGIN "close ", "" },
	{ "1ab", "", SKIP, 0, 0, -EPROTO, BEGIN "close ",
	  DEV "reservation report: type 1 and no holder in the list" },
	/* each command fails: with a status, which is named here, or with an error */
	{ "0", "", 1, 6, 0, 6, BEGIN "close ", DEV "reservation report: Internal Error (006)" },
	{ "0", "", 1, 1, 0, 1, BEGIN "close ",
	  DEV "reservation report: Invalid Command Opcode (001)" },
	{ "0", "", 1, -EIO, 0, -EIO, BEGIN "close ", "" },
	{ "0", "", 2, 2, 0, 2, BEGIN NEW "close ",
	  DEV "reservation register: Invalid Field in Command (002)" },
	{ "0", "", 2, -EIO, 0, -EIO, BEGIN NEW "close ", "" },
	{ "0", "", 3, 6, 0, 6, BEGIN NEW "acquire 100 51,0 " LEAVE "close ",
	  DEV "reservation acquire: Internal Error (006)" },
	{ "0", "", 3, -EIO, 0, -EIO, BEGIN NEW "acquire 100 51,0 close ", "" },
	{ "3S", "", 3, 6, 0, 6, BEGIN AGAIN "release 300 51 " LEAVE "close ",
	  DEV "reservation acquire: Internal Error (006)" },
	/* another host was faster */
	{ "0", "1As", 3, 0x83, 0, -EBUSY, BEGIN NEW "acquire 100 51,0 report1 " LEAVE "close ",
	  "" },
	{ "0", "1A", 3, 0x83, 0, -EBUSY, BEGIN NEW "acquire 100 51,0 report1 close ", "" },
	{ "0", "0s", 3, 0x83, 0, 0x83, BEGIN NEW "acquire 100 51,0 report1 " LEAVE "close ",
	  DEV "reservation acquire: " LOST },
	{ "0", "1S", 3, 0x83, 0, 0x83, BEGIN NEW "acquire 100 51,0 report1 " LEAVE "close ",
	  DEV "reservation acquire: " LOST },
	{ "0", "1A", 3, 0x83, 6, 6, BEGIN NEW "acquire 100 51,0 report1 close ",
	  DEV "reservation report: Internal Error (006)" },
};

Test(reservation_calls, a_reservation_is_taken)
{
	for (size_t i = 0; i < ROWS(taken); i++) {
		const char *report = taken[i].again[0] ? taken[i].again : taken[i].report;
		struct hr_reservation r = { .held = true, .lock = 7 };
		struct hr_resv_holder holder = { .type = 9 };

		prepare(&taken[i], true);
		check(&taken[i], i, hr_resv_take(&r, &disk, &self, &holder, test_error()));
		cr_expect_eq(r.held, taken[i].want == 0, "row %zu", i);
		cr_expect(r.type == 1 && r.key == KEY, "row %zu", i);
		cr_expect(!r.held || r.lock == LOCK);
		cr_expect(ctrl.has_host_id);
		if (taken[i].want == -EBUSY) {
			cr_expect_eq(holder.type, report[0] - '0', "row %zu", i);
			cr_expect_eq(holder.id[15], 'a', "row %zu", i);
			cr_expect_eq(holder.key, (uint64_t)'a', "row %zu", i);
		}
	}
}

Test(reservation_calls, the_type_is_one_that_the_namespace_has)
{
	static const struct {
		uint8_t rescap, type;
		const char *calls;
	} row[] = {
		{ 0x02, 1, BEGIN NEW "acquire 100 51,0 " },
		{ 0x04, 2, BEGIN NEW "acquire 200 51,0 " },
		{ 0xff, 1, BEGIN NEW "acquire 100 51,0 " },
		{ 0xf9, 0, "" },
		{ 0, 0, "" },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		struct hr_reservation r;
		struct hr_resv_holder holder = { .type = 9 };

		start(true);
		disk.ns.rescap = row[i].rescap;
		cr_expect_eq(hr_resv_supported(&disk), row[i].type != 0, "row %zu", i);
		cr_expect_eq(hr_resv_take(&r, &disk, &self, &holder, test_error()), 0);
		cr_expect_str_eq(calls_text(), row[i].calls, "row %zu: %s", i, calls_text());
		cr_expect_eq(r.type, row[i].type);
		cr_expect_eq(r.held, row[i].type != 0);
		cr_expect_eq(holder.type, 0);
		ctrl.oncs = (uint16_t)~NVME_CTRL_ONCS_RESERVATIONS;
		cr_expect_not(hr_resv_supported(&disk));
		fake.on = false;
	}
}

/* The letter of the identifier that the controller has, when it refuses another one. */
Test(reservation_calls, the_host_identifier_is_sent_once)
{
	static const struct {
		bool long_host_id, has_it;
		unsigned nth;
		int err, later;
		uint8_t host;
		int want;
		const char *calls, *says;
	} row[] = {
		{ false, false, SKIP, 0, 0, 0, 0, LOCKED "host report0 " NEW "acquire 100 51,0 ",
		  "" },
		{ true, true, SKIP, 0, 0, 0, 0, LOCKED "report1 " NEW "acquire 100 51,0 ", "" },
		{ true, false, 0, -EIO, 0, 0, -EIO, LOCKED "host close ", "" },
		{ true, false, 0, 2, 0, 's', 0,
		  LOCKED "host host? report1 " NEW "acquire 100 51,0 ", "" },
		{ false, false, 0, 2, 0, 's', 0,
		  LOCKED "host host? report0 " NEW "acquire 100 51,0 ", "" },
		{ true, false, 0, 2, 0, 'a', 2, LOCKED "host host? close ",
		  DEV "set features, Host Identifier: Invalid Field in Command (002)" },
		{ true, false, 0, 2, 6, 's', 2, LOCKED "host host? close ",
		  DEV "set features, Host Identifier: Invalid Field in Command (002)" },
		{ true, false, 0, 2, -EIO, 's', -EIO, LOCKED "host host? close ", "" },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		const struct act act = { .report = "0",
					 .again = "0",
					 .nth = row[i].nth,
					 .err = row[i].err,
					 .later = row[i].later,
					 .want = row[i].want,
					 .calls = row[i].calls,
					 .says = row[i].says };
		struct hr_resv_holder holder;
		struct hr_reservation r;

		prepare(&act, row[i].long_host_id);
		ctrl.has_host_id = row[i].has_it;
		fake.host = row[i].host;
		check(&act, i, hr_resv_take(&r, &disk, &self, &holder, test_error()));
		cr_expect_eq(ctrl.has_host_id, row[i].want == 0, "row %zu", i);
	}
}

Test(reservation_calls, the_lock_of_the_machine_comes_first)
{
	static const struct {
		int open_error, lock_error, want;
		uint8_t nguid, uuid, eui64;
		const char *calls, *says;
	} row[] = {
		{ EMFILE, 0, -EMFILE, 0, 0, 14, "open ns-3-0e0e0e0e0e0e0e0e ",
		  DEV "lock of this machine: " FOLDER
		      ": ns-3-0e0e0e0e0e0e0e0e: Too many open files" },
		{ 0, EPERM, -EPERM, 0, 0, 14, LOCKED "close ",
		  DEV "lock of this machine: " FOLDER
		      ": ns-3-0e0e0e0e0e0e0e0e: Operation not permitted" },
		{ 0, EAGAIN, -EBUSY, 0, 0, 14, LOCKED "close ", "" },
		{ 0, EAGAIN, -EBUSY, 0, 0, 0, "open ns-3-0000000000000000-serial lock close ", "" },
		{ 0, EAGAIN, -EBUSY, 0, 0xab, 14,
		  "open ns-3-abababababababababababababababab lock close ", "" },
		{ 0, EAGAIN, -EBUSY, 0xcd, 0xab, 14,
		  "open ns-3-cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd lock close ", "" },
		/* no other controller may reach it, but another disk may have its identifier */
		{ 0, EAGAIN, -EBUSY, 0, 0, 14, "open ns-3-0e0e0e0e0e0e0e0e-serial lock close ",
		  "" },
	};

	for (size_t i = 0; i < 2 * ROWS(row); i++) {
		const struct act act = { .want = row[i / 2].want,
					 .calls = row[i / 2].calls,
					 .says = row[i / 2].says };
		struct hr_resv_holder holder = { .type = 9 };
		struct hr_reservation r;

		if (row[i / 2].says[0] && geteuid() != 0)
			continue; /* the folder of another user has another name */
		start(true);
		fake.open_error = row[i / 2].open_error;
		fake.lock_error = row[i / 2].lock_error;
		disk.ns.shared = !strstr(row[i / 2].calls, "0e-serial");
		memset(disk.ns.nguid, row[i / 2].nguid, sizeof disk.ns.nguid);
		memset(disk.ns.uuid, row[i / 2].uuid, sizeof disk.ns.uuid);
		memset(disk.ns.eui64, row[i / 2].eui64, sizeof disk.ns.eui64);
		check(&act, i,
		      i % 2 ? hr_resv_clear(&disk, &self, &holder, test_error())
			    : hr_resv_take(&r, &disk, &self, &holder, test_error()));
		cr_expect_eq(holder.type, 0);
		cr_expect(i % 2 || (!r.held && r.lock == -1));
	}
}

Test(reservation_calls, a_reservation_is_released)
{
	static const struct {
		struct act act;
		bool send;
		const char *warns;
	} row[] = {
		{ { "0", "", SKIP, 0, 0, 0, "release 400 51 " LEAVE "close ", "" }, true, NULL },
		{ { "0", "", SKIP, 0, 0, 0, "close ", "" }, false, NULL },
		{ { "0", "", 0, 6, 0, 0, "release 400 51 close ",
		    DEV "reservation release: Internal Error (006)" },
		  true,
		  NULL },
		{ { "0", "", 1, 6, 0, 0, "release 400 51 " LEAVE "close ",
		    DEV "reservation release: Internal Error (006)" },
		  true,
		  NULL },
		{ { "0", "", 0, -EIO, 0, 0, "release 400 51 close ", "" }, true, NULL },
		{ { "2A", "", 0, 0x83, 0, 0, "release 400 51 report1 close ", "" },
		  true,
		  DEV "the reservation of this host is lost: Exclusive Access reservation of key "
		      "0x0000000000000061, host 61616161616161616161616161616161" },
		{ { "0", "", 1, 0x83, 0, 0, "release 400 51 " LEAVE "report1 close ", "" },
		  true,
		  DEV "the reservation of this host is lost: another host has removed it" },
		{ { "0", "", 0, 0x83, 6, 0, "release 400 51 report1 close ",
		    DEV "reservation report: Internal Error (006)" },
		  true,
		  NULL },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		struct hr_reservation r = { .held = true, .type = 4, .key = KEY, .lock = LOCK };
		const unsigned warnings = fake_log_count_of(HR_LOG_WARN);

		prepare(&row[i].act, true);
		hr_resv_release(&r, &disk, row[i].send, test_error());
		check(&row[i].act, i, 0);
		cr_expect_not(r.held);
		cr_expect_eq(fake_log_count_of(HR_LOG_WARN), warnings + (row[i].warns != NULL));
		if (row[i].warns)
			cr_expect_str_eq(fake_log_last_of(HR_LOG_WARN), row[i].warns, "%s",
					 fake_log_last_of(HR_LOG_WARN));
		calls_take();
		hr_resv_release(&r, &disk, true, test_error());
		cr_expect_str_eq(calls_text(), "", "it is not held any more");
	}
}

Test(reservation_calls, the_reservation_of_any_holder_is_cleared)
{
	static const struct act row[] = {
		{ "0", "", SKIP, 0, 0, 0, BEGIN "close ", "" },
		{ "0ab", "", SKIP, 0, 0, 0, BEGIN "close ", "" },
		{ "2A", "", SKIP, 0, 0, 0, BEGIN NEW "acquire 101 51,61 " LEAVE "close ", "" },
		{ "2As", "", SKIP, 0, 0, 0, BEGIN AGAIN "acquire 101 51,61 " LEAVE "close ", "" },
		{ "5ab", "", SKIP, 0, 0, 0, BEGIN NEW "acquire 101 51,0 " LEAVE "close ", "" },
		{ "6ab", "", SKIP, 0, 0, 0, BEGIN NEW "acquire 101 51,0 " LEAVE "close ", "" },
		{ "4aS", "", SKIP, 0, 0, 0, BEGIN AGAIN LEAVE "close ", "" },
		{ "1A", "", 0, -EIO, 0, -EIO, LOCKED "host close ", "" },
		{ "1A", "", 1, 6, 0, 6, BEGIN "close ",
		  DEV "reservation report: Internal Error (006)" },
		{ "1A", "", 2, 6, 0, 6, BEGIN NEW "close ",
		  DEV "reservation register: Internal Error (006)" },
		{ "1A", "", 3, 6, 0, 6, BEGIN NEW "acquire 101 51,61 " LEAVE "close ",
		  DEV "reservation acquire (preempt): Internal Error (006)" },
		{ "1A", "", 3, -EIO, 0, -EIO, BEGIN NEW "acquire 101 51,61 close ", "" },
		{ "1A", "", 4, 6, 0, 6, BEGIN NEW "acquire 101 51,61 " LEAVE "close ",
		  DEV "reservation register (unregister): Internal Error (006)" },
		{ "1A", "", 4, -EIO, 0, -EIO, BEGIN NEW "acquire 101 51,61 " LEAVE "close ", "" },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		struct hr_resv_holder holder = { .type = 9 };

		prepare(&row[i], true);
		check(&row[i], i, hr_resv_clear(&disk, &self, &holder, test_error()));
		if (row[i].want == 0)
			cr_expect_eq(holder.type, row[i].report[0] - '0', "row %zu", i);
	}
	start(true);
	ctrl.oncs = 0;
	cr_expect_eq(hr_resv_clear(&disk, &self, &(struct hr_resv_holder){ 0 }, test_error()),
		     -ENOTSUP);
	fake.on = false;
	cr_expect_str_eq(calls_text(), "");
	cr_expect_str_eq(test_error_text(), "");
}
