/*
 * nvme/status.h - what an NVMe status means for the command that got it.
 *
 * Spec: NVMe Base 2.0, 4.6.1 (generic 0, command specific 1, media and data integrity 2, path 3,
 * vendor 7). Status values are SCT << 8 | SC.
 */
#ifndef NVME_STATUS_H
#define NVME_STATUS_H

#include <stdbool.h>
#include <stdint.h>

enum hr_status_class {
	HR_STATUS_OK,
	HR_STATUS_RETRY, /* may succeed when sent again (bounded): busy, transient, aborted */
	HR_STATUS_NO_RETRY,
	HR_STATUS_MEDIA, /* the medium failed: unrecovered read, write fault, ... */
	HR_STATUS_FATAL, /* the controller or namespace cannot go on */
};

enum hr_status_class hr_status_classify(uint16_t status, bool dnr);

/*
 * The specification's name, "LBA Out of Range", in buffer, which is returned. "Unknown Status" when
 * it has none.
 */
const char *hr_status_name(uint16_t status, char *buffer, unsigned bytes);

/* Any return value of this project as text: NVMe status by name, errno as strerror() has it. */
const char *hr_error_name(int error, char *buffer, unsigned bytes);

/* Name of an opcode: "read", "create I/O SQ", ... admin tells which set. Static text. */
const char *hr_opcode_name(uint8_t opcode, bool admin);

#endif
