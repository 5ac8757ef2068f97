#include "boot/engine/run.h"

#include "config/uses.h"

bool hr_run_wired(const struct hr_run *run)
{
	return run->pipe || run->part[0].access;
}

uint32_t hr_run_parts(const struct hr_run *run)
{
	return hr_config_gpus(run->config);
}

/* Records of a role in one part of an access operator. */
static uint32_t part_statuses(const struct hr_run *run, uint32_t role)
{
	const struct hr_access *access = &run->part[0].cpu;

	if (role == HR_ROLE_IO)
		return hr_access_io_workers(access);
	return role == HR_ROLE_ACCESS ? access->compute_blocks : 0;
}

uint32_t hr_run_status_part(const struct hr_run *run, uint32_t i, uint32_t *number)
{
	uint32_t role = 0, one;

	while (i >= hr_run_role_statuses(run, role))
		i -= hr_run_role_statuses(run, role++);
	one = run->part[0].access ? part_statuses(run, role) : hr_run_role_statuses(run, role);
	*number = i % one;
	return i / one;
}

const struct hr_worker_status *hr_run_status(const struct hr_run *run, uint32_t i)
{
	const uint32_t io = hr_run_first_status(run, HR_ROLE_ACCESS);
	uint32_t part, number;

	if (!run->part[0].access)
		return &run->cpu.status[i];
	part = hr_run_status_part(run, i, &number);
	return &run->part[part].cpu.status[(i < io ? 0 : part_statuses(run, HR_ROLE_IO)) + number];
}

uint32_t hr_run_role_statuses(const struct hr_run *run, uint32_t role)
{
	if (run->part[0].access)
		return part_statuses(run, role) * hr_run_parts(run);
	return role < HR_ROLES ? hr_pipe_role_statuses(run->pipe, role) : 0;
}

uint32_t hr_run_first_status(const struct hr_run *run, uint32_t role)
{
	uint32_t first = 0;

	for (uint32_t r = 0; r < role; r++)
		first += hr_run_role_statuses(run, r);
	return first;
}

uint32_t hr_run_statuses(const struct hr_run *run)
{
	return hr_run_first_status(run, HR_RUN_ROLES);
}

struct hr_pipe_control *hr_run_control(const struct hr_run *run, uint32_t part)
{
	return run->part[part].access ? run->part[part].cpu.control : run->cpu.control;
}

const struct hr_layout *hr_run_layout(const struct hr_run *run, uint32_t part)
{
	return run->config->objects ? &run->part[part].layout.parts : &run->layout.parts;
}

int hr_run_descriptor(const struct hr_run *run, uint32_t part)
{
	return run->config->objects ? run->part[part].layout.descriptor : run->layout.descriptor;
}

uint32_t hr_run_blocks(const struct hr_run *run)
{
	uint32_t blocks = 0;

	for (uint32_t role = 0; role < HR_RUN_ROLES; role++)
		blocks += run->blocks[role];
	return blocks;
}

int hr_run_from(const struct hr_run *run, uint32_t i)
{
	return run->config->objects ? run->object[i].from : run->source[i].from;
}

uint64_t hr_run_pages_read(const struct hr_run *run)
{
	uint64_t pages = 0;

	for (uint32_t p = 0; run->part[0].access && p < hr_run_parts(run); p++)
		for (uint32_t i = 0; i < hr_access_io_workers(&run->part[p].cpu); i++)
			pages += hr_acquire_sys_u64(&run->part[p].cpu.counters[i].reads);
	return pages;
}
