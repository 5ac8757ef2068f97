/* Devices by their strings: each form that is accepted or refused, and what is opened with it. */
#include "boot/engine/devices.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gpu/cuda/cuda.h"
#include "gpu/host/host.h"
#include "nvme/soft/soft.h"
#include "nvme/transport_pci.h"
#include "nvme/transport_vfio.h"
#include "pci/function.h"
#include "tests/harness/calls.h"
#include "tests/harness/error.h"

TestSuite(devices_open, .timeout = 60);

#define ROWS(row) (sizeof(row) / sizeof *(row))
#define BDF "0000:41:00.0"

/* ---- the functions that the strings lead to */

static int transport_err, cuda_err, host_err, bar_err, look_err;
static enum hr_transport_access access_now;

enum hr_transport_access hr_transport_access(void)
{
	return access_now;
}

int hr_soft_open(struct hr_transport *t, const struct hr_soft_options *o, struct hr_error *e)
{
	calls_note("soft '%s' %llu existing=%d readonly=%d cache=%llu", o->path,
		   (unsigned long long)o->bytes, o->existing, o->read_only,
		   (unsigned long long)o->cache_bytes);
	return transport_err;
}

int hr_pci_open(struct hr_transport *t, const char *address, struct hr_error *e)
{
	calls_note("pci %s", address);
	return transport_err;
}

int hr_vfio_open(struct hr_transport *t, const char *address, struct hr_error *e)
{
	calls_note("vfio %s", address);
	return transport_err;
}

int hr_function_look(const char *address, struct hr_function_state *state, struct hr_error *e)
{
	calls_note("look %s", address);
	return look_err;
}

bool hr_function_masters_bus(const char *address)
{
	calls_note("masters %s", address);
	return strcmp(address, BDF) == 0;
}

int hr_cuda_open(struct hr_backend *b, int ordinal, bool compressible, struct hr_error *e)
{
	calls_note("cuda %d %d;", ordinal, compressible);
	strcpy(b->name, "GPU");
	return cuda_err ? hr_fail(e, HR_ERROR_MISSING, cuda_err, "no GPU") : 0;
}

int hr_cuda_await(int ordinal, struct hr_error *e)
{
	calls_note("await %d;", ordinal);
	return cuda_err ? hr_fail(e, HR_ERROR_MISSING, -EAGAIN, "not ready") : 0;
}

int hr_host_open(struct hr_backend *b, unsigned cpus, uint32_t max_blocks, struct hr_error *e)
{
	calls_note("host %u %u;", cpus, max_blocks);
	return host_err ? hr_fail(e, HR_ERROR_FAILED, host_err, "no threads") : 0;
}

bool hr_host_bar_check(const char *bar)
{
	return strcmp(bar, "bad") != 0;
}

int hr_host_use_bar(struct hr_backend *b, const char *bar, struct hr_error *e)
{
	calls_note("bar %s;", bar);
	return bar_err;
}

/* A machine has not each of these. */
int stat(const char *restrict path, struct stat *restrict st)
{
	static const struct {
		const char *path;
		mode_t mode;
	} row[] = {
		{ "/hr/block", S_IFBLK },
		{ "/hr/file", S_IFREG },
		{ "/hr/folder", S_IFDIR },
		{ "/hr/folder.img", S_IFDIR },
	};

	for (size_t i = 0; i < ROWS(row); i++)
		if (strcmp(path, row[i].path) == 0) {
			*st = (struct stat){ .st_mode = row[i].mode,
					     .st_dev = 0xa1,
					     .st_ino = 0xb2 };
			return 0;
		}
	return fstatat(AT_FDCWD, path, st, 0);
}

/* ---- transports */

#define OTHER "': expected soft:PATH[,...], pci:BDF or vfio:BDF"
#define LIKE(kind, device) "'" device OTHER "; did you mean '" kind device "'?"
#define KERNEL                                                                               \
	"': workers need queue pairs, which a disk of the kernel does not offer; it is for " \
	"'headrace store' only; expected soft:PATH[,...], pci:BDF or vfio:BDF"
#define NO_FUNCTION(kind, bdf) \
	kind bdf ": '" bdf "' is not a PCI function (expected like 0000:41:00.0)"

Test(devices_open, each_transport_string_is_accepted_or_refused_with_its_reason)
{
	static const struct {
		const char *device, *says; /* "": accepted */
	} row[] = {
		{ "soft:/a,size=1M", "" },
		{ "soft:", "soft: no path: expected soft:PATH, soft:memory or soft:null" },
		{ "pci:" BDF, "" },
		{ "vfio:" BDF, "" },
		{ "pci:41:00.0", "" },
		{ "pci:", NO_FUNCTION("pci:", "") },
		{ "vfio:0000:41:1f.8", NO_FUNCTION("vfio:", "0000:41:1f.8") },
		{ "pci:0000:41:20.0", NO_FUNCTION("pci:", "0000:41:20.0") },
		{ "pci:" BDF "x", NO_FUNCTION("pci:", BDF "x") },
		{ "kernel:/dev/x", "'kernel:/dev/x" KERNEL },
		{ "kernel", "'kernel" OTHER },
		{ "", "'" OTHER },
		{ "soft", "'soft" OTHER },
		{ BDF, LIKE("pci:", BDF) },
		{ "/hr/block", LIKE("kernel:", "/hr/block") },
		{ "/hr/block,size=1M", LIKE("kernel:", "/hr/block,size=1M") },
		{ "/hr/file", LIKE("soft:", "/hr/file") },
		{ "/hr/file,cache=0", LIKE("soft:", "/hr/file,cache=0") },
		{ "/hr/folder", "'/hr/folder" OTHER },
		{ "/hr/folder.img", LIKE("soft:", "/hr/folder.img") },
		{ "/hr/none.img", LIKE("soft:", "/hr/none.img") },
		{ "/hr/none.imgs", "'/hr/none.imgs" OTHER },
		{ ".img", "'.img" OTHER },
		{ "x.img", LIKE("soft:", "x.img") },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		struct hr_transport t;
		const int want = *row[i].says ? -EINVAL : 0;

		cr_expect_eq(hr_transport_check(row[i].device, test_error()), want, "%zu", i);
		cr_expect_str_eq(test_error_text(), row[i].says);
		cr_expect_eq(test_error_kind(), want ? HR_ERROR_USAGE : HR_ERROR_NONE, "%zu", i);
		cr_expect_eq(hr_transport_open(&t, row[i].device, test_error()), want, "%zu", i);
		cr_expect_str_eq(test_error_text(), row[i].says);
		cr_expect_eq(*calls_take() != '\0', !want, "%zu: what is refused is not opened", i);
	}
}

Test(devices_open, a_transport_is_opened_as_the_process_may_access_it)
{
	static const struct {
		enum hr_transport_access access;
		const char *device, *calls;
	} row[] = {
		{ HR_ACCESS_CREATE, "soft:/a,size=1M",
		  "soft '/a' 1048576 existing=0 readonly=0 cache=16777216" },
		{ HR_ACCESS_EXISTING, "soft:/a",
		  "soft '/a' 0 existing=1 readonly=0 cache=16777216" },
		{ HR_ACCESS_READ, "soft:/a", "soft '/a' 0 existing=1 readonly=1 cache=0" },
		{ HR_ACCESS_READ, "soft:/a,readonly=1,cache=1M",
		  "soft '/a' 0 existing=1 readonly=1 cache=1048576" },
		{ HR_ACCESS_READ, "soft:memory,size=4K,cache=4K",
		  "soft '' 4096 existing=1 readonly=0 cache=4096" },
		{ HR_ACCESS_READ, "pci:" BDF, "pci " BDF },
		{ HR_ACCESS_CREATE, "vfio:41:00.1", "vfio 41:00.1" },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		struct hr_transport t;

		access_now = row[i].access;
		transport_err = i & 1 ? -EBUSY : 0;
		cr_expect_eq(hr_transport_open(&t, row[i].device, NULL), transport_err, "%zu", i);
		cr_expect_str_eq(calls_take(), row[i].calls);
	}
}

Test(devices_open, a_look_at_a_device_asks_only_for_a_function)
{
	static const struct {
		const char *device;
		int look;
		bool absent, masters;
		const char *calls;
	} row[] = {
		{ "pci:" BDF, -ENOENT, true, true, "look " BDF "masters " BDF },
		{ "vfio:" BDF, 0, false, true, "look " BDF "masters " BDF },
		{ "pci:x", -EINVAL, false, false, "look xmasters x" },
		{ "soft:/hr/none", -ENOENT, true, false, "" },
		{ "soft:/hr/none,size=1M", -ENOENT, false, false, "" },
		{ "soft:/hr/none,x=1", -ENOENT, false, false, "" },
		{ "soft:/", -ENOENT, false, false, "" },
		{ "soft:/dev/null/x", -ENOENT, false, false, "" }, /* ENOTDIR */
		{ "soft:null,size=1M", -ENOENT, false, false, "" },
		{ BDF, -ENOENT, false, false, "" },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		look_err = row[i].look;
		cr_expect_eq(hr_transport_is_absent(row[i].device), row[i].absent, "%zu", i);
		cr_expect_eq(hr_transport_masters_bus(row[i].device), row[i].masters, "%zu", i);
		cr_expect_str_eq(calls_take(), row[i].calls);
		cr_expect_eq(hr_transport_is_physical(row[i].device),
			     strncmp(row[i].device, "pci:", 4) == 0, "%zu", i);
	}
}

Test(devices_open, the_identity_of_an_image_has_an_exact_end)
{
	char text[17];

	cr_expect_eq(hr_transport_identity("soft:/hr/file", 10, text, sizeof text), 0);
	cr_expect_str_eq(text, "image:a1:b2/10");
	cr_expect_eq(hr_transport_identity("soft:/hr/file", 10, text, 15), 0);
	cr_expect_eq(hr_transport_identity("soft:/hr/file", 10, text, 14), -ENAMETOOLONG);
	cr_expect_str_eq(text, "");
	cr_expect_eq(hr_transport_identity("soft:/hr/none", 1, text, sizeof text), -ENOENT);
	cr_expect_eq(hr_transport_identity("soft:/dev/null/x", 1, text, sizeof text), -ENOTDIR);
	cr_expect_eq(hr_transport_namespaces("soft:/hr/file,namespaces=3"), 3u);
	cr_expect_eq(hr_transport_namespaces("soft:/hr/file"), 1u);
	cr_expect_eq(hr_transport_namespaces("soft:/hr/file,namespaces=0"), 0u);
	cr_expect_eq(hr_transport_namespaces("/hr/file,namespaces=3"), 0u);
}

/* ---- backends */

static struct hr_backend backend;

static int open_backend(const char *device)
{
	memset(&backend, 0, sizeof backend);
	errno = ERANGE; /* of an earlier call */
	return hr_backend_open(&backend, device, 7, test_error());
}

#define SAME10 "0000000000"

Test(devices_open, each_backend_string_is_opened_or_refused)
{
	static const struct {
		const char *device, *calls; /* NULL: refused */
	} row[] = {
		{ "cuda:0", "cuda 0 0;" },
		{ "cuda:4096", "cuda 4096 0;" },
		{ "cuda:4097", NULL },
		{ "cuda:12,compressible", "cuda 12 1;" },
		{ "cuda:12,compressibl", NULL },
		{ "cuda:12,compressible2", NULL },
		{ "cuda:12,", NULL },
		{ ",compressible", NULL },
		{ "cuda:", NULL },
		{ "cuda", NULL },
		{ "cuda:/", NULL },
		{ "cuda::", NULL },
		{ "cuda:9", "cuda 9 0;" },
		{ "cuda:-1", NULL },
		{ "cuda:1x", NULL },
		{ "cuda:99999999999999999999", NULL },
		{ "cuda:" SAME10 SAME10 "000002", "cuda 2 0;" }, /* 31 characters */
		{ "cuda:" SAME10 SAME10 "0000002", NULL },
		{ "cuda:1" SAME10 SAME10 SAME10 SAME10 SAME10, NULL },
		{ "host:1", "host 1 7;" },
		{ "host:0", NULL },
		{ "host:4097", NULL },
		{ "host:1x", NULL },
		{ "host:1,", NULL },
		{ "host:1,bar", NULL },
		{ "host:1,bax=" BDF, NULL },
		{ "host:1,bar=bad", NULL },
		{ "host:1,bar=" BDF "/2", "host 1 7;bar " BDF "/2;" },
		{ "host:0,bar=" BDF, NULL },
		{ "host:" SAME10 SAME10 "000001", "host 1 7;" },
		{ "host:" SAME10 SAME10 "0000001", NULL },
		{ "autos", NULL },
		{ "", NULL },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		const int want = row[i].calls ? 0 : -EINVAL;
		char says[200];

		snprintf(says, sizeof says,
			 "'%s': expected cuda:N[,compressible], host:CPUS[,bar=BDF[/N]] or auto",
			 row[i].device);
		cr_expect_eq(open_backend(row[i].device), want, "%s", row[i].device);
		cr_expect_str_eq(test_error_text(), want ? says : "");
		cr_expect_eq(test_error_kind(), want ? HR_ERROR_USAGE : HR_ERROR_NONE);
		cr_expect_str_eq(calls_take(), want ? "" : row[i].calls);
		cr_expect_str_eq(backend.note, "", "%s", row[i].device);
		cr_expect_eq(hr_backend_check(row[i].device, test_error()), want);
	}
}

/* The string with its BAR has one length at most. */
Test(devices_open, a_device_string_has_a_maximum_length)
{
	char device[HR_DEVICE_MAX + 1] = "host:1,bar=";

	memset(device + strlen(device), 'b', HR_DEVICE_MAX - strlen("host:1,bar="));
	cr_expect_eq(open_backend(device), -EINVAL);
	cr_expect_str_eq(calls_take(), "");
	device[HR_DEVICE_MAX - 1] = '\0';
	cr_expect_eq(open_backend(device), 0);
	cr_expect_eq(strlen(calls_take()),
		     strlen("host 1 7;bar ;") + HR_DEVICE_MAX - 1 - strlen("host:1,bar="));
}

Test(devices_open, an_open_that_fails_says_why_and_opens_nothing_else)
{
	cuda_err = -ENODEV;
	cr_expect_eq(open_backend("cuda:3"), -ENODEV);
	cr_expect_str_eq(test_error_text(), "cuda:3: no GPU; or use host:CPUS or auto");
	cr_expect_eq(test_error_kind(), HR_ERROR_MISSING);
	cr_expect_str_eq(calls_take(), "cuda 3 0;");
	host_err = -EAGAIN;
	cr_expect_eq(open_backend("host:1,bar=" BDF), -EAGAIN);
	cr_expect_str_eq(test_error_text(), "no threads");
	cr_expect_str_eq(calls_take(), "host 1 7;", "no BAR");
	cr_expect_eq(open_backend("host:4096"), -EAGAIN);
	cr_expect_str_eq(backend.note, "");
	calls_take();
	host_err = 0;
	bar_err = -EBUSY;
	cr_expect_eq(open_backend("host:1,bar=" BDF), -EBUSY);
	cr_expect_str_eq(calls_take(), "host 1 7;bar " BDF ";");
	cr_expect_eq(open_backend("host:1"), 0, "no BAR is named");
}

/* The note has the choice when it is not what the string says. */
Test(devices_open, all_cpus_are_the_most_that_a_backend_has)
{
	const unsigned cpus = (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
	char device[32], calls[64], note[128];

	for (unsigned n = cpus; n <= cpus + 1; n++) {
		snprintf(device, sizeof device, "host:%u", n);
		snprintf(calls, sizeof calls, "host %u 7;", cpus);
		snprintf(note, sizeof note, "%s: only %u CPUs are online", device, cpus);
		cr_expect_eq(open_backend(device), 0);
		cr_expect_str_eq(calls_take(), calls);
		cr_expect_str_eq(backend.note, n > cpus ? note : "");
	}
	cr_expect_eq(open_backend("auto"), 0);
	cr_expect_str_eq(calls_take(), "cuda -1 0;");
	cr_expect_str_eq(backend.note, "auto: worker blocks run on GPU");
	cuda_err = -ENODEV;
	snprintf(calls, sizeof calls, "cuda -1 0;host %u 7;", cpus);
	snprintf(note, sizeof note, "auto: no GPU; worker blocks run on the %u CPUs", cpus);
	cr_expect_eq(open_backend("auto"), 0);
	cr_expect_str_eq(calls_take(), calls);
	cr_expect_str_eq(backend.note, note);
	cr_expect_str_eq(test_error_text(), "", "the fallback is no error");
	host_err = -ENOMEM;
	cr_expect_eq(open_backend("auto"), -ENOMEM);
	cr_expect_str_eq(test_error_text(), "no threads");
	cr_expect_str_eq(backend.note, "");
}
