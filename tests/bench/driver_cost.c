/* SPDX-License-Identifier: Apache-2.0 */
/*
 * driver_cost [BATCH [READS]]: 4 KiB reads through one queue pair, for tests/bench/driver_cost.sh,
 * which counts the instructions of work_*() with callgrind.
 *
 * complete() is the controller; it is not counted, and no data are copied. The count covers the
 * code of the product: building the SQE, in-flight table, generations, deadlines with one reading
 * of the clock per doorbell, and both doorbells. (Under valgrind that reading is a system call of
 * about 20 instructions; otherwise it uses the vDSO, with about 50.)
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/clock.h"
#include "nvme/queue/queue.h"

#define ENTRIES 256u
#define OWN_FUNCTION __attribute__((noipa))
#define FLAT __attribute__((flatten)) /* workers have these functions inline */

static uint32_t doorbell[2];

/* The controller: it reads the commands announced by the SQ doorbell, in its own order. */
OWN_FUNCTION static void complete(struct hr_nvme_qp *qp)
{
	static uint32_t head, tail, phase = 1;
	uint16_t cid[ENTRIES];
	uint32_t n = 0;

	while (head != doorbell[0]) {
		cid[n++] = qp->sq[head].cid;
		head = (head + 1) % ENTRIES;
	}
	while (n) {
		qp->cq[tail].sqhd = (uint16_t)head;
		qp->cq[tail].sqid = qp->id;
		qp->cq[tail].dw3 = phase << 16 | cid[--n];
		tail = (tail + 1) % ENTRIES;
		phase ^= tail == 0;
	}
}

static void submit(struct hr_nvme_qp *qp, uint64_t lba, uint32_t batch)
{
	struct hr_sqe sqe;

	for (uint32_t i = 0; i < batch; i++) {
		hr_sqe_io(&sqe, nvme_cmd_read, 1, lba + i, 1, 0x1000 + (lba + i) * HR_PAGE, 0);
		hr_qp_push(qp, true, &sqe, i);
	}
	hr_qp_publish(qp);
}

/*
 * Reap until the batch is complete. Polling an empty queue is waiting and is not a cost of any
 * read.
 */
static uint32_t reap(struct hr_nvme_qp *qp, uint32_t batch)
{
	struct hr_completion done = { 0 };
	uint32_t good = 0;

	for (uint32_t n = 0; n < batch && hr_qp_reap(qp, &done); n++)
		good += done.status == 0 && done.token < batch;
	return good;
}

/* The counted code, without complete(): one function per batch size, like the code of a worker. */
static inline __attribute__((always_inline)) uint32_t work(struct hr_nvme_qp *qp, uint32_t reads,
							   uint32_t batch)
{
	uint32_t good = 0;

	for (uint32_t done = 0; done < reads; done += batch) {
		submit(qp, done, batch);
		complete(qp);
		good += reap(qp, batch);
	}
	return good;
}

OWN_FUNCTION FLAT static uint32_t work_1(struct hr_nvme_qp *qp, uint32_t reads)
{
	return work(qp, reads, 1);
}

OWN_FUNCTION FLAT static uint32_t work_4(struct hr_nvme_qp *qp, uint32_t reads)
{
	return work(qp, reads, 4);
}

OWN_FUNCTION FLAT static uint32_t work_32(struct hr_nvme_qp *qp, uint32_t reads)
{
	return work(qp, reads, 32);
}

static uint32_t run(struct hr_nvme_qp *qp, uint32_t batch, uint32_t reads)
{
	qp->sq_doorbell = &doorbell[0];
	qp->cq_doorbell = &doorbell[1];
	if (batch == 1)
		return work_1(qp, reads);
	return batch == 4 ? work_4(qp, reads) : work_32(qp, reads);
}

int main(int argc, char **argv)
{
	static uint8_t sq[ENTRIES * HR_SQE_BYTES] __attribute__((aligned(HR_PAGE)));
	static uint8_t cq[ENTRIES * HR_CQE_BYTES] __attribute__((aligned(HR_PAGE)));
	const uint32_t batch = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 1;
	const uint32_t reads = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 100000;
	const struct hr_qp_memory memory = { sq, cq, malloc(hr_qp_table_bytes(ENTRIES)) };
	uint32_t completed = 0;
	struct hr_nvme_qp qp;

	if ((batch == 1 || batch == 4 || batch == 32) && memory.table &&
	    hr_qp_init(&qp, 1, ENTRIES, &memory, HR_NS_PER_S) == 0) {
		completed = run(&qp, batch, reads);
		printf("%u\n", completed);
	} else {
		fprintf(stderr, "driver_cost: batch 1, 4 or 32\n");
	}
	free(memory.table);
	return completed < reads;
}
