/* SPDX-License-Identifier: Apache-2.0 */
/* An ssd that another process drives, as a check sees it. */
#include "boot/engine/devices/stand_in.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "tests/harness/engine.h"

TestSuite(stand_in, .timeout = 60);

static const char config[] =
	"ssds = ( { name = \"a\"; device = \"soft:memory,size=16M\";\n"
	"           objects = ( { name = \"in\"; bytes = \"100000\"; } ); } );\n"
	"gpus = ( { name = \"g\"; device = \"host:1\"; } );\n"
	"pipelines = ( { name = \"sum\"; source = { object = \"in\"; }; operator = \"crc32c\"; } );\n";

static struct hr_engine *driver, *engine; /* the ssd is up in `driver` */
static int error;			  /* of describe() */
static uint32_t objects;		  /* that describe() adds */
static size_t damaged;			  /* byte of the facts; 0: none */
static uint64_t read_at;

static int describe(void *to, const struct hr_config_ssd *ssd, struct hr_ssd_facts *facts,
		    const struct hr_store_object **object, uint32_t *count, const char **by,
		    struct hr_error *e)
{
	cr_expect_eq(to, &error);
	cr_expect_str_eq(ssd->name, "a");
	if (error)
		return error == -ENODEV ? error : hr_fail(e, HR_ERROR_FAILED, error, "it is busy");
	hr_ssd_describe(&driver->ssd[0], facts);
	if (damaged)
		((uint8_t *)facts)[damaged] = 0x55;
	*object = driver->ssd[0].store.object;
	*count = driver->ssd[0].store.count + objects;
	*by = "box";
	return 0;
}

static int read_part(void *to, const struct hr_config_ssd *ssd, const char *object, uint64_t at,
		     void *data, size_t bytes, struct hr_error *e)
{
	cr_expect_str_eq(object, "in");
	read_at = at;
	memset(data, 7, bytes);
	return 0;
}

static const struct hr_elsewhere elsewhere = { &error, describe, read_part };

static struct hr_engine *make(void)
{
	struct hr_engine *made = calloc(1, sizeof *made);

	cr_assert_not_null(made);
	engine_read(made, config);
	hr_log_set_level(HR_LOG_ERROR);
	return made;
}

static void begin(void)
{
	driver = make();
	cr_assert_eq(hr_engine_up(driver, HR_STAGE_STORES), 0);
	engine = make();
	engine->only_checks = true;
	engine->elsewhere = &elsewhere;
}

static void end(void)
{
	hr_engine_down(driver);
	free(driver);
	free(engine);
}

static int up(uint32_t d, struct hr_ssd *peer)
{
	return hr_stand_in_up(&engine->ssd[d], &engine->config.ssd[d], engine->elsewhere, peer,
			      test_error());
}

Test(stand_in, it_has_the_properties_and_the_objects_of_the_ssd, .init = begin, .fini = end)
{
	const struct hr_ssd *real = &driver->ssd[0], *ssd = &engine->ssd[0];
	struct hr_store_space is, was;
	uint8_t data[8];

	cr_assert_eq(up(0, NULL), 0, "%s", test_error_text());
	cr_expect_str_eq(hr_stand_in_by(ssd), "box");
	cr_expect_null(hr_stand_in_by(real));
	cr_expect_str_eq(ssd->transport.name, real->transport.name);
	cr_expect_str_eq(ssd->ctrl->model, real->ctrl->model);
	cr_expect_eq(memcmp(&ssd->ns, &real->ns, sizeof ssd->ns), 0);
	cr_expect_eq(ssd->queue_entries, real->queue_entries);
	cr_expect_eq(ssd->chunk_bytes, real->chunk_bytes);
	cr_expect_eq(hr_ssd_queues(ssd), hr_ssd_queues(real));
	cr_expect_eq(hr_ssd_queues_left(ssd), hr_ssd_queues_left(real));
	cr_expect_eq(hr_ssd_dma_bytes(ssd), hr_ssd_dma_bytes(real));
	cr_expect_eq(hr_ssd_map_bytes(ssd), hr_ssd_map_bytes(real));
	hr_store_space(&ssd->store, &is);
	hr_store_space(&real->store, &was);
	cr_expect_eq(memcmp(&is, &was, sizeof is), 0);
	cr_expect_eq(hr_store_find(&ssd->store, "in")->bytes, 100000u);
	cr_expect_eq(ssd->blk->ops->read(ssd->blk, ssd->store.object[0].offset + 4096, data, 8,
					 test_error()),
		     0);
	cr_expect_eq(read_at, 4096u);
	cr_expect_eq(data[7], 7);
	cr_expect_eq(ssd->blk->ops->read(ssd->blk, 0, data, 8, test_error()), -EBUSY);
	cr_expect_eq(ssd->blk->ops->write(ssd->blk, 0, data, 8, true, test_error()), -EROFS);
	cr_expect_eq(ssd->blk->ops->flush(ssd->blk, test_error()), 0);
	hr_ssd_down(&engine->ssd[0]);
	cr_expect(!ssd->controller && !ssd->has_store);
}

/* Two namespaces of one controller. */
Test(stand_in, a_peer_has_the_same_controller, .init = begin, .fini = end)
{
	engine->config.ssds = 2;
	engine->config.ssd[1] = engine->config.ssd[0];
	cr_assert_eq(up(0, NULL), 0);
	cr_assert_eq(up(1, &engine->ssd[0]), 0);
	cr_expect(hr_ssd_same_controller(&engine->ssd[0], &engine->ssd[1]));
	cr_expect_eq(hr_ssd_queues_left(&engine->ssd[0]), hr_ssd_queues(&engine->ssd[0]) - 2);
	hr_ssd_down(&engine->ssd[0]);
	cr_expect_eq(engine->ssd[1].controller->users, 1u);
	hr_ssd_down(&engine->ssd[1]);
}

Test(stand_in, what_is_refused, .init = begin, .fini = end)
{
	const uint32_t room = driver->ssd[0].store.capacity;

	error = -ENODEV;
	cr_expect_eq(up(0, NULL), -ENODEV);
	cr_expect_str_empty(test_error_text());
	error = -EBUSY;
	cr_expect_eq(up(0, NULL), -EBUSY);
	cr_expect_str_eq(test_error_text(), "it is busy");
	error = 0;
	objects = room;
	cr_expect_eq(up(0, NULL), -EPROTO);
	objects = 0;
	strcpy(engine->config.ssd[0].serial, "other");
	cr_expect_eq(up(0, NULL), -ENODEV);
	cr_expect_not_null(strstr(test_error_text(), "the configuration requires 'other'"));
	cr_expect_null(engine->ssd[0].controller);
}

#define AT(member) offsetof(struct hr_ssd_facts, member)

Test(stand_in, facts_that_no_ssd_has, .init = begin, .fini = end)
{
	/* the highest byte of each number */
	static const size_t at[] = {
		AT(kind),	 AT(ns.lba_shift), AT(max_entries) + 3, AT(chunk_bytes) + 3,
		AT(chunk_bytes), AT(queues) + 3,   AT(users) + 3,	AT(store_capacity) + 3
	};
	struct hr_ssd_facts facts;

	for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
		damaged = at[i];
		cr_expect_eq(up(0, NULL), -EPROTO, "row %zu", i);
	}
	damaged = 0;
	hr_ssd_describe(&driver->ssd[0], &facts);
	cr_expect(hr_ssd_facts_ok(&facts, facts.store_capacity));
	memset(facts.model, 'x', sizeof facts.model);
	cr_expect_not(hr_ssd_facts_ok(&facts, 0));
}
