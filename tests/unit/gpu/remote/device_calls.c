/* The search for the device with an address: the RDMA library is the test's. */
#include "gpu/remote/device.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "tests/harness/calls.h"
#include "tests/harness/error.h"

#define DEVICES 4

static struct ibv_device device_[DEVICES];
static struct ibv_device *list[DEVICES + 1];
static struct ibv_context context[DEVICES];
static struct ibv_gid_entry entries[DEVICES][3];
static int devices, closed_to; /* closed_to: a device that does not open, or -1 */
static bool no_list, query_fails;
static ssize_t gids;
static enum ibv_port_state state[DEVICES];

static struct ibv_device **get_device_list(int *count)
{
	*count = devices;
	for (int i = 0; i < DEVICES; i++)
		list[i] = &device_[i];
	return no_list ? NULL : list;
}

static void free_device_list(struct ibv_device **of)
{
	cr_expect_eq(of, list);
	calls_note("free;");
}

static const char *get_device_name(struct ibv_device *of)
{
	static const char *const name[DEVICES] = { "dev0", "dev1", "dev2", "behind" };

	return name[of - device_];
}

static struct ibv_context *open_device(struct ibv_device *of)
{
	calls_note("open %d;", (int)(of - device_));
	return of - device_ == closed_to ? NULL : &context[of - device_];
}

static int close_device(struct ibv_context *of)
{
	calls_note("close %d;", (int)(of - context));
	return 0;
}

static ssize_t query_gid_table(struct ibv_context *of, struct ibv_gid_entry *into, size_t max,
			       uint32_t flags, size_t bytes)
{
	cr_expect(max == 512 && flags == 0 && bytes == sizeof *into);
	memcpy(into, entries[of - context], sizeof entries[0]);
	return gids;
}

static int query_port(struct ibv_context *of, uint8_t port, struct ibv_port_attr *attr)
{
	calls_note("port %d.%u;", (int)(of - context), port);
	attr->state = state[of - context];
	attr->active_mtu = IBV_MTU_1024 + (of - context);
	return query_fails ? -1 : 0;
}

static const struct hr_verbs verbs = { .get_device_list = get_device_list,
				       .free_device_list = free_device_list,
				       .get_device_name = get_device_name,
				       .open_device = open_device,
				       .close_device = close_device,
				       .query_gid_table = query_gid_table,
				       .query_port = query_port };
static struct in_addr address;
static struct hr_rdma_device found;

/* dev0 has other GIDs; dev1 and dev2 have 10.0.1.2, at ports 3 and 4. */
static void begin(void)
{
	const union ibv_gid gid = { .raw = { [10] = 0xff, 0xff, 10, 0, 1, 2 } };

	calls_take();
	devices = 3;
	gids = 3;
	closed_to = -1;
	no_list = query_fails = false;
	memset(entries, 0, sizeof entries);
	for (int d = 0; d < DEVICES; d++) {
		state[d] = IBV_PORT_ACTIVE;
		for (int i = 0; i < 3; i++)
			entries[d][i] = (struct ibv_gid_entry){ .gid = gid,
								.gid_index = 7 + (uint32_t)i,
								.port_num = 2 + (uint32_t)d,
								.gid_type = IBV_GID_TYPE_ROCE_V2 };
		entries[d][0].gid.raw[15]++;
		entries[d][1].gid_type = IBV_GID_TYPE_ROCE_V1;
	}
	entries[0][2].gid.raw[10] = 0;
	cr_assert_eq(inet_pton(AF_INET, "10.0.1.2", &address), 1);
	memset(&found, 0xff, sizeof found);
}

TestSuite(device_calls, .init = begin, .timeout = 60);

static void expect(const char *name, int err, const char *log, const char *text)
{
	cr_expect_eq(hr_rdma_device_open(&verbs, name, address, &found, test_error()), err);
	cr_expect_str_eq(calls_text(), log, "%s", calls_text());
	if (err)
		cr_expect_str_eq(test_error_text(), text, "%s", test_error_text());
	if (err)
		cr_expect_eq(test_error_kind(), HR_ERROR_MISSING);
	cr_expect_eq(found.context == NULL, err != 0);
	calls_take();
	begin();
}

#define NONE "no RDMA device has the address 10.0.1.2 (RoCE v2); there are: dev0, dev1, dev2"

Test(device_calls, the_first_device_with_the_address_is_taken)
{
	cr_expect_eq(hr_rdma_device_open(&verbs, NULL, address, &found, test_error()), 0);
	cr_expect_str_eq(calls_text(), "open 0;close 0;open 1;port 1.3;free;", "%s", calls_text());
	cr_expect_str_eq(found.name, "dev1");
	cr_expect(found.context == &context[1] && found.port == 3 && found.gid_index == 9 &&
		  found.mtu == IBV_MTU_2048);
	cr_expect_eq(memcmp(&found.gid, &entries[1][2].gid, sizeof found.gid), 0);
	calls_take();
	hr_rdma_device_close(&verbs, &found);
	hr_rdma_device_close(&verbs, &found);
	cr_expect_str_eq(calls_text(), "close 1;", "%s", calls_text());
	cr_expect_null(found.context);
}

Test(device_calls, a_device_that_does_not_fit_is_passed_by)
{
	expect("dev2", 0, "open 2;port 2.4;free;", "");
	expect("dev0", -ENODEV, "open 0;close 0;free;",
	       "no RDMA device dev0 has the address 10.0.1.2 (RoCE v2); there are: dev0, dev1, dev2");
	expect("dev", -ENODEV, "free;",
	       "no RDMA device dev has the address 10.0.1.2 (RoCE v2); there are: dev0, dev1, dev2");
	closed_to = 1;
	expect(NULL, 0, "open 0;close 0;open 1;open 2;port 2.4;free;", "");
	state[1] = IBV_PORT_DOWN;
	expect(NULL, 0, "open 0;close 0;open 1;port 1.3;close 1;open 2;port 2.4;free;", "");
	state[1] = state[2] = IBV_PORT_ARMED;
	expect(NULL, -ENODEV,
	       "open 0;close 0;open 1;port 1.3;close 1;open 2;port 2.4;close 2;free;",
	       "dev2: the port with the address 10.0.1.2 is not active");
	query_fails = true;
	expect("dev1", -ENODEV, "open 1;port 1.3;close 1;free;",
	       "dev1: the port with the address 10.0.1.2 is not active");
	devices = 1;
	expect(NULL, -ENODEV, "open 0;close 0;free;",
	       "no RDMA device has the address 10.0.1.2 (RoCE v2); there are: dev0");
	devices = 0;
	expect(NULL, -ENODEV, "free;", "this machine has no RDMA device");
	no_list = true;
	expect(NULL, -ENODEV, "", "this machine has no RDMA device");
}

Test(device_calls, a_gid_has_a_port_and_an_index_of_a_byte)
{
	static const struct {
		uint32_t index, port;
		ssize_t gids;
		bool is_found;
	} row[] = { { 255, 255, 3, true },  { 256, 255, 3, false }, { 255, 256, 3, false },
		    { 255, 255, 2, false }, { 255, 255, 0, false }, { 255, 255, -1, false } };

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		begin();
		devices = 3;
		for (int d = 1; d < DEVICES; d++) {
			entries[d][2].gid_index = row[i].index;
			entries[d][2].port_num = row[i].port;
		}
		gids = row[i].gids;
		cr_expect_eq(hr_rdma_device_open(&verbs, NULL, address, &found, test_error()),
			     row[i].is_found ? 0 : -ENODEV, "row %zu", i);
		if (row[i].is_found)
			cr_expect(found.port == 255 && found.gid_index == 255);
		else
			cr_expect_str_eq(test_error_text(), NONE, "%s", test_error_text());
	}
}
