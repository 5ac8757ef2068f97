/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The failure of a worker in words: the object, the queue pair and the gpu that each report names,
 * and the first of several failures.
 */
#include "boot/engine/runner/conclude.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "config/operator.h"
#include "tests/harness/error.h"

TestSuite(failure, .timeout = 60);

static struct hr_engine engine;
static struct hr_config_pipeline pipeline;
static struct hr_run run;
static struct hr_worker_status status[8];
/* one more for reads than the run has */
static struct hr_nvme_qp read_qp[5], write_qp[2], io_qp[4];
static const struct hr_operator op = { .name = "op" };

static void name_things(void)
{
	memset(&engine, 0, sizeof engine);
	memset(&pipeline, 0, sizeof pipeline);
	memset(&run, 0, sizeof run);
	memset(status, 0, sizeof status);
	for (unsigned i = 0; i < 3; i++) {
		snprintf(engine.config.ssd[i].name, sizeof engine.config.ssd[i].name, "ssd%u", i);
		snprintf(engine.config.gpu[i].name, sizeof engine.config.gpu[i].name, "gpu%u", i);
		engine.config.ssd[i].timeout_ns = (i + 1) * 1000000000ull;
		snprintf(pipeline.source[i].object, sizeof pipeline.source[i].object, "in%u", i);
		snprintf(pipeline.object[i].object, sizeof pipeline.object[i].object, "ob%u", i);
		pipeline.source[i].ssd = pipeline.object[i].ssd = i;
	}
	snprintf(pipeline.sink.object, sizeof pipeline.sink.object, "out");
	pipeline.sink.ssd = 2;
	snprintf(pipeline.name, sizeof pipeline.name, "p");
	pipeline.op = &op;
	run.config = &pipeline;
}

/* Two sources on ssds 0 and 1, and a sink on ssd 2; two workers of each role. */
static void be_a_stream(void)
{
	name_things();
	pipeline.sources = 2;
	pipeline.has_sink = true;
	run.ssds = 2;
	run.ssd[1] = 1;
	run.blocks[HR_ROLE_PREFETCH] = run.blocks[HR_ROLE_COMPUTE] = 1;
	run.blocks[HR_ROLE_WRITEBACK] = 1;
	run.workers[HR_ROLE_PREFETCH] = run.workers[HR_ROLE_WRITEBACK] = 2;
	run.workers[HR_ROLE_COMPUTE] = 1;
	memcpy(run.cpu.blocks, run.blocks, sizeof run.cpu.blocks);
	memcpy(run.cpu.workers, run.workers, sizeof run.cpu.workers);
	run.cpu.status = status;
	run.cpu.read_qp = read_qp;
	run.cpu.write_qp = write_qp;
	run.pipe = &run.cpu;
}

/* Three objects, on two gpus with one I/O worker and one compute block each. */
static void be_an_access_operator(void)
{
	name_things();
	pipeline.objects = 3;
	pipeline.other_gpus = 1;
	pipeline.other_gpu[0] = 1;
	run.ssds = 2;
	run.ssd[1] = 1;
	run.blocks[HR_ROLE_IO] = run.workers[HR_ROLE_IO] = 1;
	for (unsigned p = 0; p < 2; p++) {
		run.gpu[p].cpu.io_blocks = run.gpu[p].cpu.compute_blocks = 1;
		run.gpu[p].cpu.warps = 1;
		run.gpu[p].cpu.status = &status[2 * p];
		run.gpu[p].cpu.qp = &io_qp[2 * p];
		run.gpu[p].access = &run.gpu[p].cpu;
	}
}

Test(failure, each_role_and_source_has_its_object)
{
	static const struct {
		uint32_t role, source;
		bool has_sink;
		const char *stream, *access;
	} row[] = {
		{ HR_ROLE_PREFETCH, 0, true, "in0", "ob0" },
		{ HR_ROLE_PREFETCH, 1, true, "in1", "ob1" },
		{ HR_ROLE_PREFETCH, 2, true, "in0", "ob2" },
		{ HR_ROLE_PREFETCH, 3, true, "in0", "ob0" },
		{ HR_ROLE_COMPUTE, 1, true, "out", "ob1" },
		{ HR_ROLE_WRITEBACK, 0, true, "out", "ob0" },
		{ HR_ROLE_COMPUTE, 1, false, "in1", "ob1" },
		{ HR_ROLE_COMPUTE, 2, false, "in0", "ob2" },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		const struct hr_failure f = { .role = (uint8_t)row[i].role,
					      .source = (uint8_t)row[i].source };

		be_a_stream();
		pipeline.has_sink = row[i].has_sink;
		cr_expect_str_eq(hr_failure_object(&run, &f)->object, row[i].stream, "row %zu", i);
		be_an_access_operator();
		cr_expect_str_eq(hr_failure_object(&run, &f)->object, row[i].access, "row %zu", i);
	}
}

/* The failure of the lowest tile counts; of two for one tile the first record. */
Test(failure, the_lowest_tile_comes_first)
{
	be_a_stream();
	cr_expect_null(hr_failure_first(&run));
	cr_expect_not(hr_failure_keep(&run));
	for (unsigned i = 0; i < 5; i++)
		status[i].failure = (struct hr_failure){ .tile = 9, .error = (int)i };
	status[3].failure.tile = status[4].failure.tile = 4;
	status[0].failure.tile = 1; /* not valid: it has not failed */
	status[1].failed = status[3].failed = status[4].failed = 1;
	cr_expect_eq(hr_failure_first(&run), &status[3].failure);
	cr_expect(hr_failure_keep(&run));
	cr_expect_eq(run.failure.error, 3);
	cr_expect_eq(run.failure_gpu, 0);
	status[0].failed = 1;
	cr_expect_eq(hr_failure_first(&run), &status[0].failure);

	be_an_access_operator();
	status[3].failed = 1;
	status[3].failure.tile = HR_NO_TILE;
	cr_expect(hr_failure_keep(&run));
	cr_expect_eq(run.failure_gpu, 1, "%u", run.failure_gpu);
}

static const char *told(void)
{
	hr_failure_explain(&engine, &run, test_error());
	return test_error_text();
}

static void expect_told(const char *want, enum hr_error_kind kind)
{
	cr_expect(strstr(told(), want), "'%s' lacks '%s'", test_error_text(), want);
	cr_expect_eq(test_error_kind(), kind, "%s", test_error_text());
}

Test(failure, an_ssd_is_named_with_its_queue_and_command)
{
	be_a_stream();
	run.failure = (struct hr_failure){ .role = HR_ROLE_PREFETCH,
					   .source = 1,
					   .tile = 7,
					   .lba = 99,
					   .qid = 5,
					   .cid = 0x1234,
					   .opcode = 2,
					   .error = -ETIMEDOUT };
	expect_told("pipeline 'p': object 'in1', tile 7, LBA 99: ssd 'ssd1' queue 5 lost command "
		    "0x1234 (read): no completion within 2000 ms",
		    HR_ERROR_DEVICE);
	run.failure.error = 0x281;
	expect_told("pipeline 'p': object 'in1', tile 7, LBA 99: ssd 'ssd1' queue 5 command 0x1234 "
		    "(read): ",
		    HR_ERROR_DEVICE);
	run.failure.role = HR_ROLE_WRITEBACK;
	run.failure.opcode = 1;
	expect_told("object 'out', tile 7, LBA 99: ssd 'ssd2' queue 5 command 0x1234 (write): ",
		    HR_ERROR_DEVICE);
	run.failure.tile = HR_NO_TILE;
	expect_told("pipeline 'p': object 'out': ssd 'ssd2' queue 5: ", HR_ERROR_DEVICE);
	run.failure.opcode = 0;
	run.failure.error = -ETIMEDOUT;
	engine.config.ssd[2].timeout_ns = 5000000000ull;
	expect_told("pipeline 'p': ssd 'ssd2' queue 5 lost command 0x1234 (flush): no completion "
		    "within 5000 ms",
		    HR_ERROR_DEVICE);
	be_an_access_operator();
	run.failure = (struct hr_failure){
		.role = HR_ROLE_IO, .source = 2, .tile = 8, .qid = 6, .error = -ETIMEDOUT
	};
	run.failure_gpu = 1;
	expect_told("pipeline 'p' on gpu 'gpu1': object 'ob2', page 8, LBA 0: ssd 'ssd2' queue 6",
		    HR_ERROR_DEVICE);
	run.failure.peer = 1;
	run.gpu[0].cpu.cache.timeout_ns = 3000000000ull;
	expect_told("object 'ob2', page 8: gpu 'gpu0' does not answer (limit 3000 ms)",
		    HR_ERROR_DEVICE);
	run.failure.peer = 2;
	expect_told("gpu 'gpu1' does not answer", HR_ERROR_DEVICE);
	run.failure.peer = 3; /* written by a worker, so not trusted */
	expect_told("gpu 'gpu0' does not answer", HR_ERROR_DEVICE);
}

/* A controller that breaks a rule: the bad completion is that of the failed queue pair. */
static void break_queues(struct hr_nvme_qp *qp, unsigned count, uint16_t first_sqid)
{
	for (unsigned i = 0; i < count; i++) {
		memset(&qp[i], 0, sizeof qp[i]);
		qp[i].id = (uint16_t)(5 + i / 2);
		qp[i].error = -EPROTO;
		qp[i].bad_cqe.sqid = (uint16_t)(first_sqid + i);
	}
}

Test(failure, a_broken_rule_is_told_from_the_queue_pair_of_the_worker)
{
	static const struct {
		uint32_t role, source, qid;
		const char *want;
	} row[] = {
		{ HR_ROLE_PREFETCH, 0, 5, "SQID 100 is not 5" },
		{ HR_ROLE_PREFETCH, 1, 5, "SQID 101 is not 5" },
		{ HR_ROLE_PREFETCH, 0, 6, "SQID 102 is not 6" },
		{ HR_ROLE_PREFETCH, 1, 6, "SQID 103 is not 6" },
		{ HR_ROLE_WRITEBACK, 0, 5, "SQID 200 is not 5" },
		{ HR_ROLE_WRITEBACK, 0, 8, "SQID 201 is not 8" },
	};

	be_a_stream();
	break_queues(read_qp, 5, 100);
	break_queues(write_qp, 2, 200);
	write_qp[1].id = 8;
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		run.failure = (struct hr_failure){ .role = (uint8_t)row[i].role,
						   .source = (uint8_t)row[i].source,
						   .qid = (uint16_t)row[i].qid,
						   .tile = 1,
						   .error = -EPROTO };
		expect_told(row[i].want, HR_ERROR_DEVICE);
	}
	/* a queue of the sink has the number of one for reads of the same ssd */
	pipeline.sink.ssd = 1;
	run.failure.qid = 5;
	expect_told("SQID 200 is not 5", HR_ERROR_DEVICE);
	run.failure.qid = 9;
	cr_expect_not(strstr(told(), "SQID"), "%s", test_error_text());
	run.failure.role = HR_ROLE_PREFETCH;
	run.failure.qid = 7;
	cr_expect_not(strstr(told(), "SQID"), "%s", test_error_text());
	run.failure.role = HR_ROLE_WRITEBACK;
	run.failure.qid = 8;
	run.failure.error = -EIO;
	cr_expect_not(strstr(told(), "SQID"), "%s", test_error_text());

	be_an_access_operator();
	break_queues(io_qp, 4, 300);
	for (unsigned i = 0; i < 4; i++) {
		char want[32];

		io_qp[i].id = 5; /* the queue pairs of both gpus and ssds have the same number */
		run.failure_gpu = i / 2;
		run.failure = (struct hr_failure){ .role = HR_ROLE_IO,
						   .source = (uint8_t)(i % 2),
						   .qid = 5,
						   .tile = 1,
						   .error = -EPROTO };
		snprintf(want, sizeof want, "SQID %u is not 5", 300 + i);
		expect_told(want, HR_ERROR_DEVICE);
	}
}

Test(failure, an_operator_is_named_with_its_mistake)
{
	static const struct {
		uint32_t role;
		int error;
		uint64_t tile;
		const char *want;
	} row[] = {
		{ HR_ROLE_IO, -EDEADLK, 5,
		  "object 'ob1', page 5: no frame was free for 4000 ms: operator op keeps" },
		{ HR_ROLE_ACCESS, -EDEADLK, 5,
		  "operator op: a worker has ended while others wait" },
		{ HR_ROLE_ACCESS, -ERANGE, 5,
		  "operator op accesses element or page 5 of object 'ob1', beyond its 77 bytes" },
		{ HR_ROLE_ACCESS, -ERANGE, HR_NO_TILE, "operator op: " },
		{ HR_ROLE_ACCESS, -EBADMSG, 5,
		  "operator op cannot accept the value of element 5 of object 'ob1'" },
		{ HR_ROLE_ACCESS, -EINVAL, 5, "operator op writes object 'ob1', which its" },
		{ HR_ROLE_ACCESS, -EINVAL, HR_NO_TILE, "operator op: " },
		{ HR_ROLE_ACCESS, -EIO, 5, "operator op: " },
	};

	be_an_access_operator();
	run.object[1].bytes = 77;
	run.gpu[1].cpu.cache.timeout_ns = 4000000000ull;
	run.failure_gpu = 1;
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		run.failure = (struct hr_failure){ .role = (uint8_t)row[i].role,
						   .source = 1,
						   .tile = row[i].tile,
						   .error = row[i].error };
		expect_told(row[i].want, HR_ERROR_FAILED);
		cr_expect_eq(strncmp(test_error_text(), "pipeline 'p' on gpu 'gpu1': ", 28), 0);
	}
	cr_expect_not(strstr(test_error_text(), "accesses"), "%s", test_error_text());

	be_a_stream();
	run.failure = (struct hr_failure){ .role = HR_ROLE_COMPUTE,
					   .tile = 6,
					   .out_bytes = 513,
					   .out_promised = 512,
					   .error = -EOVERFLOW };
	expect_told("pipeline 'p': operator op made 513 bytes of tile 6 for object 'out', expected "
		    "512",
		    HR_ERROR_FAILED);
}
