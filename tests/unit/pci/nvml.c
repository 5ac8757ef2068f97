/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A management library that this test replaces: the NVLinks that count, their ends, and the answers
 * about peer access.
 */
#include "pci/machine.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "pci/topo/fields.h"
#include "pci/topo/gpu_peers.h"
#include "pci/topo/source/source.h"
#include "tests/harness/machine.h"

#define LINKS 36u
#define TYPE_GPU 0
#define TYPE_OTHER 1
#define TYPE_SWITCH 2

struct info { /* nvmlPciInfo_t of version 3 */
	char legacy[16];
	unsigned domain, bus, device, id, subsystem;
	char bus_id[32];
};

/* Answers of the library about one link of the first GPU. */
struct link {
	bool active;
	int type;
	unsigned domain, bus, device;
	int state_error, type_error, pci_error;
};

static struct fake_machine machine;
static struct hr_model model;
static struct link link[LINKS];
static const char *absent; /* symbol that the library lacks, or NULL */
static bool no_library;
static int init_error, by_id_error;
static unsigned opened, started, asked;
static char device_of_first, device_of_second, wrong;
/* Of the second GPU: known to the library. Answers by access, for both directions. */
static bool second_known;
static int answer[2][HR_P2P_ACCESSES], answer_error[HR_P2P_ACCESSES];

static int init(unsigned flags)
{
	wrong |= flags != 1; /* NVML_INIT_FLAG_NO_GPUS */
	started += !init_error;
	return init_error;
}

static int shut_down(void)
{
	started--;
	return 0;
}

static int by_bus_id(const char *id, void **device)
{
	asked++;
	if (second_known && strcmp(id, "0000:06:00.0") == 0) {
		*device = &device_of_second;
		return 0;
	}
	if (by_id_error || strcmp(id, "0000:03:00.0"))
		return 6; /* NVML_ERROR_NOT_FOUND */
	*device = &device_of_first;
	return 0;
}

static int p2p_status(void *from, void *to, int access, int *status)
{
	const bool back = from == &device_of_second;

	wrong |= access < 0 || access >= HR_P2P_ACCESSES || from == to;
	*status = answer[back][access];
	return answer_error[access];
}

static int state(void *device, unsigned i, int *active)
{
	if (second_known && device == &device_of_second)
		return 3; /* NVML_ERROR_NOT_SUPPORTED */
	wrong |= device != &device_of_first || i >= LINKS;
	*active = link[i].active;
	return link[i].state_error;
}

static int remote_type(void *device, unsigned i, int *type)
{
	wrong |= device != &device_of_first || !link[i].active;
	*type = link[i].type;
	return link[i].type_error;
}

static int remote_pci(void *device, unsigned i, struct info *info)
{
	wrong |= device != &device_of_first || !link[i].active;
	if (link[i].pci_error)
		return link[i].pci_error;
	info->domain = link[i].domain;
	info->bus = link[i].bus;
	info->device = link[i].device;
	return 0;
}

/* These replace libc's functions in this program. Hidden, so that libraries keep theirs. */
__attribute__((visibility("hidden"))) void *dlopen(const char *name, int flags)
{
	wrong |= strcmp(name, "libnvidia-ml.so.1") != 0;
	opened += !no_library;
	return no_library ? NULL : &opened;
}

__attribute__((visibility("hidden"))) int dlclose(void *library)
{
	wrong |= library != &opened;
	opened--;
	return 0;
}

__attribute__((visibility("hidden"))) void *dlsym(void *library, const char *name)
{
	static const struct {
		const char *name;
		void (*call)(void);
	} row[] = {
		{ "nvmlInitWithFlags", (void (*)(void))init },
		{ "nvmlShutdown", (void (*)(void))shut_down },
		{ "nvmlDeviceGetHandleByPciBusId_v2", (void (*)(void))by_bus_id },
		{ "nvmlDeviceGetNvLinkState", (void (*)(void))state },
		{ "nvmlDeviceGetNvLinkRemoteDeviceType", (void (*)(void))remote_type },
		{ "nvmlDeviceGetNvLinkRemotePciInfo_v2", (void (*)(void))remote_pci },
		{ "nvmlDeviceGetP2PStatus", (void (*)(void))p2p_status },
	};
	void *symbol = NULL;

	wrong |= library != &opened;
	for (size_t i = 0; i < sizeof row / sizeof *row; i++)
		if (strcmp(row[i].name, name) == 0 && (!absent || strcmp(absent, name) != 0))
			memcpy(&symbol, &row[i].call, sizeof symbol);
	return symbol;
}

/*
 * Two GPUs of NVIDIA, the sound function of the first one, and a GPU of AMD. The library knows only
 * the first GPU.
 */
static void begin(void)
{
	cr_assert_eq(hr_model_init(&model), 0);
	fake_two_ports(&machine);
	fake_gpu(&machine, "06:00.0", 0x39000000000, 34);
	fake_function(&machine, "03:00.1", 0x040300, 0x10de, 0x10f7, 0);
	fake_put(fake_gpu(&machine, "07:00.0", 0x3a000000000, 34), HR_CFG_VENDOR, 2, 0x1002);
	cr_assert_eq(fake_load(&machine, &model), 0, "%s", model.error.text);
}

static void end(void)
{
	hr_model_fini(&model);
}

TestSuite(nvml, .init = begin, .fini = end, .timeout = 60);

/* Returns the result of hr_read_nvml(), after which the library is closed. */
static int read_nvml(void)
{
	const int err = hr_read_nvml(&model);

	cr_expect(!wrong, "the library was called wrongly");
	cr_expect_eq(opened, 0, "the library stays loaded");
	cr_expect_eq(started, 0, "the library is not shut down");
	return err;
}

Test(nvml, links_to_the_same_end_are_summed_up)
{
	static const struct {
		uint64_t to;
		unsigned count;
		bool to_switch;
	} want[] = {
		{ (uint64_t)0x6 << 8, 3, false },
		{ (uint64_t)0x12345 << 16 | 0xff << 8 | 31 << 3, 1, false },
		{ (uint64_t)0x6 << 8, 1, true },
		{ HR_NO_ADDRESS, 2, true },
	};

	for (unsigned i = 0; i < 3; i++)
		link[i * 2] = (struct link){ true, TYPE_GPU, .bus = 6 };
	link[1] = (struct link){ true, TYPE_GPU, .domain = 0x12345, .bus = 0xff, .device = 31 };
	link[3] = (struct link){ true, TYPE_SWITCH, .bus = 6 };
	/* Two switches with unknown addresses: an address of all ones, and no address. */
	link[5] = (struct link){ true, TYPE_SWITCH, .domain = ~0u, .bus = ~0u, .device = ~0u };
	link[LINKS - 1] = (struct link){ true, TYPE_SWITCH, .pci_error = 3 };
	cr_expect_eq(read_nvml(), 0);
	cr_assert_eq(model.gpu_links, sizeof want / sizeof *want);
	for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
		const struct hr_gpu_link *got = NULL;

		for (uint32_t j = 0; j < model.gpu_links; j++)
			if (model.gpu_link[j].to == want[i].to &&
			    model.gpu_link[j].to_switch == want[i].to_switch)
				got = &model.gpu_link[j];
		cr_assert_not_null(got, "end %zu", i);
		cr_expect_eq(got->from, (uint64_t)3 << 8, "end %zu", i);
		cr_expect_eq(got->count, want[i].count, "end %zu: %u", i, got->count);
		cr_expect_eq(got->fabric, HR_NVLINK, "end %zu", i);
	}
}

/* One further link counts, so the test sees that the reader has read all links. */
Test(nvml, links_that_do_not_count)
{
	link[0] = (struct link){ false, TYPE_GPU, .bus = 6 };
	link[1] = (struct link){ true, TYPE_GPU, .bus = 6, .state_error = 2 };
	link[2] = (struct link){ true, TYPE_GPU, .bus = 6, .type_error = 2 };
	link[3] = (struct link){ true, TYPE_GPU, .bus = 6, .pci_error = 2 };
	link[4] = (struct link){ true, TYPE_OTHER, .bus = 6 };
	link[5] = (struct link){ true, TYPE_GPU, .domain = ~0u };
	link[6] = (struct link){ true, TYPE_GPU, .domain = 0x1000000, .bus = 6 };
	link[7] = (struct link){ true, TYPE_GPU, .domain = 0xffffff, .bus = 6 };
	cr_expect_eq(read_nvml(), 0);
	cr_assert_eq(model.gpu_links, 1);
	cr_expect_eq(model.gpu_link[0].to, (uint64_t)0xffffff << 16 | 6 << 8);
	cr_expect_eq(model.gpu_link[0].count, 1);
}

Test(nvml, each_link_may_have_an_end_of_its_own)
{
	for (unsigned i = 0; i < LINKS; i++)
		link[i] = (struct link){ true, TYPE_GPU, .bus = 0x40 + i };
	cr_expect_eq(read_nvml(), 0);
	cr_expect_eq(model.gpu_links, LINKS);
}

Test(nvml, a_gpu_that_the_library_does_not_know_has_no_links)
{
	by_id_error = 1;
	link[0] = (struct link){ true, TYPE_GPU, .bus = 6 };
	absent = "nvmlDeviceGetP2PStatus";
	cr_expect_eq(read_nvml(), 0);
	cr_expect_eq(asked, 2, "of both GPUs of NVIDIA, and no other function");
	cr_expect_eq(model.gpu_links, 0);
}

Test(nvml, the_driver_answers_for_each_direction_and_access)
{
	const uint64_t first = 3u << 8, second = 6u << 8;
	const struct hr_p2p *there, *back;

	second_known = true;
	for (unsigned i = 0; i < HR_P2P_ACCESSES; i++)
		answer[1][i] = (int)i + 1; /* CNS, GNS, TNS, disabled, not supported */
	answer_error[HR_P2P_ATOMICS] = 3;
	answer[0][HR_P2P_PCI] = 7; /* a status that this release does not know */
	answer[1][HR_P2P_PCI] = -1;
	cr_expect_eq(read_nvml(), 0);
	cr_assert_eq(model.p2ps, 2);
	there = hr_p2p_find(&model, first, second);
	back = hr_p2p_find(&model, second, first);
	cr_assert(there && back);
	cr_expect_eq(there->status[HR_P2P_READ], HR_P2P_OK);
	cr_expect_eq(there->status[HR_P2P_NVLINK], HR_P2P_OK);
	cr_expect_eq(there->status[HR_P2P_ATOMICS], HR_P2P_UNREAD);
	cr_expect_eq(there->status[HR_P2P_PCI], HR_P2P_UNREAD);
	cr_expect_eq(back->status[HR_P2P_READ], HR_P2P_CNS);
	cr_expect_eq(back->status[HR_P2P_WRITE], HR_P2P_GNS);
	cr_expect_eq(back->status[HR_P2P_NVLINK], HR_P2P_TNS);
	cr_expect_eq(back->status[HR_P2P_PCI], HR_P2P_UNREAD);
	cr_expect_eq(hr_p2p_between(&model, first, second), HR_P2P_CNS);
}

Test(nvml, without_a_second_gpu_or_with_an_older_library_there_is_no_answer)
{
	cr_expect_eq(read_nvml(), 0);
	cr_expect_eq(model.p2ps, 0);
	second_known = true;
	absent = "nvmlDeviceGetP2PStatus";
	cr_expect_eq(read_nvml(), 0);
	cr_expect_eq(model.p2ps, 0);
}

Test(nvml, without_a_whole_library_that_starts_there_are_no_links)
{
	static const char *const name[] = { "nvmlInitWithFlags",
					    "nvmlShutdown",
					    "nvmlDeviceGetHandleByPciBusId_v2",
					    "nvmlDeviceGetNvLinkState",
					    "nvmlDeviceGetNvLinkRemoteDeviceType",
					    "nvmlDeviceGetNvLinkRemotePciInfo_v2" };

	for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
		absent = name[i];
		cr_expect_eq(read_nvml(), -ENOENT, "%s", absent);
	}
	absent = NULL;
	init_error = 9; /* NVML_ERROR_DRIVER_NOT_LOADED */
	cr_expect_eq(read_nvml(), -ENOENT);
	init_error = 0;
	no_library = true;
	cr_expect_eq(read_nvml(), -ENOENT);
	cr_expect_eq(asked, 0);
}
