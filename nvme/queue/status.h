/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvme/queue/status.h - meaning and names of NVMe statuses.
 *
 * Spec: NVMe Base 2.0, 4.6.1 (generic 0, command specific 1, media and data integrity 2, path 3,
 * vendor 7). Status values are SCT << 8 | SC.
 */
#ifndef NVME_QUEUE_STATUS_H
#define NVME_QUEUE_STATUS_H

#include <nvme/types.h>
#include <stdbool.h>
#include <stdint.h>

#include "nvme/queue/worker.h"

enum hr_status_class {
	HR_STATUS_OK,
	HR_STATUS_RETRY, /* may succeed when sent again (bounded): busy, transient, aborted */
	HR_STATUS_NO_RETRY,
	HR_STATUS_MEDIA, /* the medium failed: unrecovered read, write fault, ... */
	HR_STATUS_FATAL, /* the controller or namespace has failed */
};

#define HR_STATUS_OF(sct, sc) ((uint16_t)((sct) << 8 | (sc)))

/*
 * True when the cause of the status is temporary (4.6.1.2.1, 4.6.1.2.2, 4.6.1.2.4): the same
 * command may succeed later, unless the controller has set Do Not Retry. CPU and GPU.
 */
HR_BOTH bool hr_status_is_transient(uint16_t status)
{
	switch (status) {
	case NVME_SC_DATA_XFER_ERROR:
	case NVME_SC_POWER_LOSS:
	case NVME_SC_INTERNAL:
	case NVME_SC_ABORT_REQ:
	case NVME_SC_ABORT_QUEUE:
	case NVME_SC_CMD_ABORTED_PREMEPT:
	case NVME_SC_SANITIZE_IN_PROGRESS:
	case NVME_SC_CMD_INTERRUPTED:
	case NVME_SC_TRAN_TPORT_ERROR:
	case NVME_SC_ADMIN_CMD_MEDIA_NOT_READY:
	case NVME_SC_NS_NOT_READY:
	case NVME_SC_FORMAT_IN_PROGRESS:
	/* Caused by another command of headrace in progress, not by a mistake in this one. */
	case HR_STATUS_OF(NVME_SCT_CMD_SPECIFIC, NVME_SC_ABORT_LIMIT):
	case HR_STATUS_OF(NVME_SCT_CMD_SPECIFIC, NVME_SC_ASYNC_LIMIT):
	case HR_STATUS_OF(NVME_SCT_CMD_SPECIFIC, NVME_SC_SELF_TEST_IN_PROGRESS):
	case HR_STATUS_OF(NVME_SCT_PATH, NVME_SC_ANA_INTERNAL_PATH_ERROR):
	case HR_STATUS_OF(NVME_SCT_PATH, NVME_SC_ANA_TRANSITION):
	case HR_STATUS_OF(NVME_SCT_PATH, NVME_SC_CTRL_PATH_ERROR):
	case HR_STATUS_OF(NVME_SCT_PATH, NVME_SC_HOST_PATH_ERROR):
	case HR_STATUS_OF(NVME_SCT_PATH, NVME_SC_CMD_ABORTED_BY_HOST):
		return true;
	default:
		return false;
	}
}

/*
 * True for failures of the medium (4.6.1.2.3), which a repetition may overcome when Do Not Retry is
 * clear. The other statuses of that type describe the data. CPU and GPU.
 */
HR_BOTH bool hr_status_is_media(uint16_t status)
{
	return status >> 8 == NVME_SCT_MEDIA &&
	       (status & 0xff) != (NVME_SC_COMPARE_FAILED & 0xff) &&
	       (status & 0xff) != (NVME_SC_ACCESS_DENIED & 0xff) &&
	       (status & 0xff) != (NVME_SC_UNWRITTEN_BLOCK & 0xff);
}

/*
 * True for the temporary statuses of a controller or namespace that is not ready, or that executes a
 * long operation: that may take seconds to minutes, after a power-up or during a sanitize, so only
 * the deadline of the command ends its repetitions. CPU and GPU.
 */
HR_BOTH bool hr_status_is_not_ready(uint16_t status)
{
	switch (status) {
	case NVME_SC_SANITIZE_IN_PROGRESS:
	case NVME_SC_CMD_INTERRUPTED:
	case NVME_SC_ADMIN_CMD_MEDIA_NOT_READY:
	case NVME_SC_NS_NOT_READY:
	case NVME_SC_FORMAT_IN_PROGRESS:
	case HR_STATUS_OF(NVME_SCT_CMD_SPECIFIC, NVME_SC_SELF_TEST_IN_PROGRESS):
	case HR_STATUS_OF(NVME_SCT_PATH, NVME_SC_ANA_TRANSITION):
		return true;
	default:
		return false;
	}
}

/* Maximum repetitions of a command: after a temporary status, after a failure of the medium, and
 * while the controller is not ready (its deadline ends them). */
#define HR_RETRIES 8u
#define HR_MEDIA_RETRIES 3u
#define HR_NOT_READY_RETRIES UINT32_MAX

HR_BOTH uint32_t hr_status_retries(uint16_t status, bool dnr)
{
	if (dnr)
		return 0;
	if (hr_status_is_not_ready(status))
		return HR_NOT_READY_RETRIES;
	if (hr_status_is_transient(status))
		return HR_RETRIES;
	return hr_status_is_media(status) ? HR_MEDIA_RETRIES : 0;
}

/*
 * Maximum repetitions of a flush: none after a failure of the medium. A controller may drop cached
 * data when a flush fails, so a second flush that succeeds does not prove that earlier writes are
 * durable.
 */
HR_BOTH uint32_t hr_status_flush_retries(uint16_t status, bool dnr)
{
	return hr_status_is_transient(status) ? hr_status_retries(status, dnr) : 0;
}

enum hr_status_class hr_status_classify(uint16_t status, bool dnr);

/*
 * Name of a status in the specification, such as "LBA Out of Range"; "Unknown Status" for others.
 * Returns buffer.
 */
const char *hr_status_name(uint16_t status, char *buffer, unsigned bytes);

/* Text of any return value of this project: name of the NVMe status, or text of the errno.
 * Returns buffer. */
const char *hr_error_name(int error, char *buffer, unsigned bytes);

/* Name of an opcode: "read", "create I/O SQ", ... admin selects the command set. Static text. */
const char *hr_opcode_name(uint8_t opcode, bool admin);

#endif
