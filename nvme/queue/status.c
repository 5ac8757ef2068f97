/* SPDX-License-Identifier: Apache-2.0 */
#include "nvme/queue/status.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <nvme/types.h>
#include <nvme/util.h>

#define SCT_SHIFT 8
#define UNKNOWN "Unknown Status"

/* NVMe Base 4.6.1.2.1, figure 94. */
static enum hr_status_class generic(uint8_t sc)
{
	switch (sc) {
	case NVME_SC_SUCCESS:
		return HR_STATUS_OK;
	case NVME_SC_KAT_EXPIRED:
	case NVME_SC_SANITIZE_FAILED:
		return HR_STATUS_FATAL;
	default:
		return HR_STATUS_NO_RETRY;
	}
}

/* 4.6.1.2.4: the driver uses one path per namespace, so a namespace that left the path is gone. */
static enum hr_status_class path(uint8_t sc)
{
	switch (sc) {
	case NVME_SC_ANA_PERSISTENT_LOSS:
	case NVME_SC_ANA_INACCESSIBLE:
		return HR_STATUS_FATAL;
	default:
		return HR_STATUS_NO_RETRY;
	}
}

enum hr_status_class hr_status_classify(uint16_t status, bool dnr)
{
	const uint8_t sc = (uint8_t)(status & NVME_SC_MASK);

	if (hr_status_is_transient(status))
		return dnr ? HR_STATUS_NO_RETRY : HR_STATUS_RETRY;
	switch (status >> SCT_SHIFT) {
	case NVME_SCT_GENERIC:
		return generic(sc);
	case NVME_SCT_MEDIA:
		return hr_status_is_media(status) ? HR_STATUS_MEDIA : HR_STATUS_NO_RETRY;
	case NVME_SCT_PATH:
		return path(sc);
	default:
		return HR_STATUS_NO_RETRY;
	}
}

const char *hr_status_name(uint16_t status, char *buffer, unsigned bytes)
{
	const char *text = nvme_status_to_string(status, false);
	const char *colon;

	/* libnvme has two texts for unknown statuses; its other texts have the form "Name:
	 * sentence". */
	if (!text || !strcmp(text, "unrecognized") || !strcmp(text, "Unknown status"))
		text = UNKNOWN;
	colon = strchr(text, ':');
	snprintf(buffer, bytes, "%.*s", colon ? (int)(colon - text) : (int)strlen(text), text);
	return buffer;
}

/* Errors whose meaning here differs from the text of the C library, and one status whose name
 * does not describe the cause. */
static const char *own_word(int error)
{
	switch (error) {
	case -ESTALE:
		return "changed by another writer";
	case -ENOLINK:
		return "the device is gone, or its function was reset";
	case -ECONNRESET:
		return "the controller was reset";
	case NVME_SC_RESERVATION_CONFLICT:
		return "Reservation Conflict: another host holds the reservation of the namespace";
	case HR_STATUS_OF(NVME_SCT_MEDIA, NVME_SC_ACCESS_DENIED & 0xff):
		return "Access Denied: the disk is locked (TCG Opal); unlock it, as with sedutil-cli";
	default:
		return NULL;
	}
}

const char *hr_error_name(int error, char *buffer, unsigned bytes)
{
	const char *text;

	text = own_word(error);
	if (!text && error > 0)
		return hr_status_name((uint16_t)error, buffer, bytes);
	if (!text)
		text = strerrordesc_np(-error);
	snprintf(buffer, bytes, "%s", text ? text : "Unknown error");
	return buffer;
}

static const char *admin_name(uint8_t opcode)
{
	switch (opcode) {
	case nvme_admin_delete_sq:
		return "delete I/O SQ";
	case nvme_admin_create_sq:
		return "create I/O SQ";
	case nvme_admin_get_log_page:
		return "get log page";
	case nvme_admin_delete_cq:
		return "delete I/O CQ";
	case nvme_admin_create_cq:
		return "create I/O CQ";
	case nvme_admin_identify:
		return "identify";
	case nvme_admin_abort_cmd:
		return "abort";
	case nvme_admin_set_features:
		return "set features";
	case nvme_admin_get_features:
		return "get features";
	case nvme_admin_async_event:
		return "asynchronous event request";
	case nvme_admin_dbbuf:
		return "doorbell buffer config";
	case nvme_admin_format_nvm:
		return "format NVM";
	default:
		return "unknown command";
	}
}

static const char *io_name(uint8_t opcode)
{
	switch (opcode) {
	case nvme_cmd_flush:
		return "flush";
	case nvme_cmd_write:
		return "write";
	case nvme_cmd_read:
		return "read";
	case nvme_cmd_write_uncor:
		return "write uncorrectable";
	case nvme_cmd_compare:
		return "compare";
	case nvme_cmd_write_zeroes:
		return "write zeroes";
	case nvme_cmd_dsm:
		return "dataset management";
	case nvme_cmd_verify:
		return "verify";
	case nvme_cmd_copy:
		return "copy";
	case nvme_cmd_resv_register:
		return "reservation register";
	case nvme_cmd_resv_report:
		return "reservation report";
	case nvme_cmd_resv_acquire:
		return "reservation acquire";
	case nvme_cmd_resv_release:
		return "reservation release";
	default:
		return "unknown command";
	}
}

const char *hr_opcode_name(uint8_t opcode, bool admin)
{
	return admin ? admin_name(opcode) : io_name(opcode);
}
