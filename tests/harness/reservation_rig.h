/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/harness/reservation_rig.h - ssds over software controllers of one image for tests of
 * reservations: the tested host uses boot/engine/devices/ssd.h, the other host sends its own commands.
 */
#ifndef TESTS_HARNESS_RESERVATION_RIG_H
#define TESTS_HARNESS_RESERVATION_RIG_H

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "boot/engine/devices/ssd.h"
#include "config/base/clock.h"
#include "nvme/admin.h"
#include "nvme/queue/status.h"
#include "tests/harness/error.h"

#define ROWS(a) (sizeof(a) / sizeof((a)[0]))
#define CONFLICT NVME_SC_RESERVATION_CONFLICT
#define OTHER_KEY 0x0123456789abcdefull
#define IEKEY 8u

static char image[64], script[80];
static struct hr_ssd a, b, a2;
static uint8_t page[HR_PAGE] __attribute__((aligned(HR_PAGE)));

static inline void setup(void)
{
	snprintf(image, sizeof image, "/tmp/hr_resv.XXXXXX");
	close(mkstemp(image));
	snprintf(script, sizeof script, "%s.faults", image);
}

static inline void teardown(void)
{
	hr_ssd_down(&a2);
	hr_ssd_down(&a);
	hr_ssd_down(&b);
	unlink(image);
	unlink(script);
}

static inline struct hr_config_ssd config_of(uint32_t nsid, const char *options)
{
	struct hr_config_ssd config = { .nsid = nsid,
					.queue_entries = 64,
					.timeout_ns = 60 * HR_NS_PER_S,
					.admin_timeout_ns = HR_ADMIN_TIMEOUT_NS };

	snprintf(config.device, sizeof config.device, "soft:%s,size=16M,shared=1%s", image,
		 options);
	return config;
}

static inline void up(struct hr_ssd *ssd, const char *options)
{
	const struct hr_config_ssd config = config_of(1, options);

	cr_assert_eq(hr_ssd_up(ssd, &config, test_error()), 0, "%s", test_error_text());
}

/* Namespace 2 of the controller of `first`. */
static inline void up_beside(struct hr_ssd *ssd, struct hr_ssd *first, const char *options)
{
	const struct hr_config_ssd config = config_of(2, options);

	cr_assert_eq(hr_ssd_up_on(ssd, &config, first, test_error()), 0, "%s", test_error_text());
}

/* From now on the host of this controller has an identifier of 16 such bytes. */
static inline void become(struct hr_ssd *ssd, uint8_t byte)
{
	struct hr_sqe sqe = { .opcode = nvme_admin_set_features,
			      .prp1 = ssd->ctrl->admin_data_bus.addr,
			      .cdw10 = NVME_FEAT_FID_HOST_ID,
			      .cdw11 = 1 };

	memset(ssd->ctrl->admin_data, byte, 16);
	cr_assert_eq(hr_admin(ssd->ctrl, &sqe, NULL, NULL), 0);
}

static inline int send(struct hr_ssd *ssd, uint8_t opcode, uint32_t cdw10, uint64_t first,
		       uint64_t second)
{
	const struct hr_sqe sqe = { .opcode = opcode, .cdw10 = cdw10 };
	uint64_t key[2] = { first, second };

	return hr_nvme_blk_command(&ssd->disk, &sqe, key, opcode == nvme_cmd_resv_release ? 8 : 16,
				   false, NULL);
}

static inline int enroll(struct hr_ssd *ssd, uint64_t key)
{
	return send(ssd, nvme_cmd_resv_register, 0, 0, key);
}

static inline int acquire(struct hr_ssd *ssd, uint64_t key, uint8_t type)
{
	return send(ssd, nvme_cmd_resv_acquire, (uint32_t)type << 8, key, 0);
}

static inline int preempt(struct hr_ssd *ssd, uint64_t key, uint64_t victim, uint8_t type)
{
	return send(ssd, nvme_cmd_resv_acquire, (uint32_t)type << 8 | 1, key, victim);
}

/* Another host holds a reservation of the namespace through controller b. */
static inline void other_holds(uint8_t type)
{
	up(&b, ",reservations=1");
	become(&b, 0xb0);
	cr_assert_eq(enroll(&b, OTHER_KEY), 0);
	cr_assert_eq(acquire(&b, OTHER_KEY, type), 0);
}

static inline int write_page(struct hr_ssd *ssd)
{
	return ssd->blk->ops->write(ssd->blk, 0, page, sizeof page, false, test_error());
}

static inline int read_page(struct hr_ssd *ssd)
{
	return ssd->blk->ops->read(ssd->blk, 0, page, sizeof page, NULL);
}

static inline void look(struct hr_ssd *ssd, struct hr_resv_holder *holder, unsigned *registered)
{
	const struct hr_sqe sqe = { .opcode = nvme_cmd_resv_report,
				    .cdw10 = HR_PAGE / 4 - 1,
				    .cdw11 = 1 };
	const uint8_t no_host[16] = { 0 };
	bool mine;

	cr_assert_eq(hr_nvme_blk_command(&ssd->disk, &sqe, page, sizeof page, true, NULL), 0);
	cr_assert_eq(hr_resv_parse(page, sizeof page, true, no_host, holder, &mine), 0);
	*registered = page[5];
}

static inline void write_script(const char *text)
{
	FILE *f = fopen(script, "w");

	fputs(text, f);
	fclose(f);
}

#endif
