#include "tests/harness/remote_rig.h"

#include <criterion/criterion.h>
#include <string.h>
#include <unistd.h>

#include "boot/engine/names.h"
#include "boot/engine/stages.h"
#include "config/uses.h"
#include "tests/fakes/link.h"
#include "tests/harness/error.h"

struct hr_appliance rig_app;

void remote_rig_up(const char *text)
{
	fake_link_reset();
	cr_assert_eq(
		hr_config_parse(&rig_app.config, &hr_names, "f", text, strlen(text), test_error()),
		0, "%s", test_error_text());
	cr_assert_eq(hr_appliance_init(&rig_app, NULL), 0);
	cr_assert_eq(hr_appliance_up(&rig_app, HR_STAGE_MEMORY), 0);
}

void remote_rig_stream(struct hr_remote *r, uint32_t i)
{
	memset(r, 0, sizeof *r);
	r->run = &rig_app.run[i];
	r->sends = hr_config_sends(r->run->config);
	r->tiles = HR_NO_TILE;
	pthread_mutex_init(&r->lock, NULL);
}

void remote_rig_link(struct hr_remote *r, const struct hr_link_memory *memory)
{
	const struct hr_link_setup setup = { .name = "s", .address = "", .memory = *memory };

	cr_assert_eq(hr_link_open(&r->link, &setup, test_error()), 0);
}

void remote_rig_to_gpu(struct remote_rig_gpu *to, const struct hr_part *tiles, bool ordered)
{
	struct hr_places *places = &rig_app.memory[0];
	struct hr_region *tap = &places->region[HR_PLACE_TAP];
	size_t object;
	int fd;

	to->host = places->backend;
	to->tap = *tap;
	fake_shared_gpu_open(&to->gpu, ordered);
	places->backend = &to->gpu;
	cr_assert_eq(to->gpu.ops->reserve_shared(&to->gpu, to->tap.bytes, tap, test_error()), 0);
	cr_assert_eq(to->gpu.ops->make_shared(&to->gpu, tap, tiles->offset, tiles->bytes, &object,
					      &fd, test_error()),
		     0);
	close(fd);
}

void remote_rig_from_gpu(struct remote_rig_gpu *to)
{
	struct hr_places *places = &rig_app.memory[0];

	to->gpu.ops->free(&to->gpu, &places->region[HR_PLACE_TAP]);
	places->backend = to->host;
	places->region[HR_PLACE_TAP] = to->tap;
}

void remote_rig_down(void)
{
	hr_appliance_down(&rig_app);
}
