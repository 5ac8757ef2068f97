/* SPDX-License-Identifier: Apache-2.0 */
/* Log pages (Base 5.16): error information, SMART, firmware slot; and asynchronous events (5.2). */
#include <string.h>

#include "config/base/clock.h"
#include "config/base/log.h"
#include "nvme/soft/internal.h"

#define KELVIN 300u	    /* composite temperature: room temperature */
#define SPARE_THRESHOLD 10u /* percent */
#define UNIT 512000u	    /* data units of the SMART log: 1000 blocks of 512 bytes */
#define RAE 0x8000u	    /* CDW10: retain asynchronous event */

void soft_log_error(struct soft *soft, uint16_t sqid, const struct hr_sqe *sqe, uint16_t field)
{
	struct nvme_error_log_page *entry;

	hr_mutex_lock(&soft->errors_lock);
	entry = &soft->error[soft->errors % SOFT_ERROR_LOG];
	memset(entry, 0, sizeof(*entry));
	entry->error_count = ++soft->errors;
	entry->sqid = sqid;
	entry->cmdid = sqe->cid;
	entry->status_field = (uint16_t)(field << 1);
	entry->parm_error_location = 0xffff;
	entry->lba = (uint64_t)sqe->cdw11 << 32 | sqe->cdw10;
	entry->nsid = sqe->nsid;
	if ((field >> 8 & 7) == NVME_SCT_MEDIA)
		soft->media_errors++;
	pthread_mutex_unlock(&soft->errors_lock);
}

/* Newest entry first. */
static void read_errors(struct soft *soft, struct nvme_error_log_page *page)
{
	hr_mutex_lock(&soft->errors_lock);
	for (unsigned i = 0; i < SOFT_ERROR_LOG && i < soft->errors; i++)
		page[i] = soft->error[(soft->errors - 1 - i) % SOFT_ERROR_LOG];
	pthread_mutex_unlock(&soft->errors_lock);
}

static void put128(uint8_t *field, uint64_t value)
{
	memcpy(field, &value, sizeof(value));
}

static void sum_stats(const struct soft *soft, struct hr_soft_stats *sum)
{
	memset(sum, 0, sizeof(*sum));
	for (uint32_t i = 0; i < soft->threads; i++) {
		const struct hr_soft_stats *s = &soft->poller[i].stats;

		sum->commands += __atomic_load_n(&s->commands, __ATOMIC_RELAXED);
		sum->read_bytes += __atomic_load_n(&s->read_bytes, __ATOMIC_RELAXED);
		sum->written_bytes += __atomic_load_n(&s->written_bytes, __ATOMIC_RELAXED);
		sum->reads += __atomic_load_n(&s->reads, __ATOMIC_RELAXED);
		sum->writes += __atomic_load_n(&s->writes, __ATOMIC_RELAXED);
		sum->flushes += __atomic_load_n(&s->flushes, __ATOMIC_RELAXED);
		sum->errors += __atomic_load_n(&s->errors, __ATOMIC_RELAXED);
	}
}

void hr_soft_stats(const struct hr_transport *t, struct hr_soft_stats *stats)
{
	sum_stats(t->impl, stats);
}

static uint32_t kelvin(const struct soft *soft)
{
	return soft->options.kelvin ? soft->options.kelvin : KELVIN;
}

static void read_smart(struct soft *soft, struct nvme_smart_log *log)
{
	struct hr_soft_stats sum;

	sum_stats(soft, &sum);
	log->critical_warning = (uint8_t)__atomic_load_n(&soft->critical, __ATOMIC_RELAXED);
	log->temperature[0] = kelvin(soft) & 0xff;
	log->temperature[1] = (uint8_t)(kelvin(soft) >> 8);
	log->avail_spare = (uint8_t)(100 - soft->options.spare_gone);
	log->spare_thresh = SPARE_THRESHOLD;
	log->percent_used = (uint8_t)soft->options.used;
	put128(log->data_units_read, (sum.read_bytes + UNIT - 1) / UNIT);
	put128(log->data_units_written, (sum.written_bytes + UNIT - 1) / UNIT);
	put128(log->host_reads, sum.reads);
	put128(log->host_writes, sum.writes);
	put128(log->power_cycles, 1);
	put128(log->power_on_hours, (hr_now_ns() - soft->opened_ns) / (3600 * HR_NS_PER_S));
	hr_mutex_lock(&soft->errors_lock);
	put128(log->num_err_log_entries, soft->errors);
	put128(log->media_errors, soft->media_errors);
	pthread_mutex_unlock(&soft->errors_lock);
}

static void read_firmware(struct nvme_firmware_slot *log)
{
	log->afi = 1;
	memcpy(log->frs[0], "1.0     ", 8);
}

/* The whole log page; the host receives the requested part. */
union log_page {
	struct nvme_error_log_page error[SOFT_ERROR_LOG];
	struct nvme_smart_log smart;
	struct nvme_firmware_slot firmware;
	uint32_t changed[HR_PAGE / 4];
	uint8_t bytes[HR_PAGE];
};

/* After the log page has been read, the next event of that type may be sent, unless the host
 * sets RAE. */
static bool unmask(struct soft *soft, const struct hr_sqe *sqe, uint32_t type)
{
	if (sqe->cdw10 & RAE)
		return false;
	soft->masked &= ~(1u << type);
	return true;
}

uint16_t soft_get_log(struct soft *soft, const struct hr_sqe *sqe)
{
	const uint64_t dwords = (sqe->cdw10 >> 16 | (uint64_t)(sqe->cdw11 & 0xffff) << 16) + 1;
	union log_page page;

	/* LPA reports neither offsets nor extended data. */
	if (sqe->cdw12 || sqe->cdw13 || dwords * 4 > sizeof(page))
		return NVME_SC_INVALID_FIELD | SOFT_DNR;
	/* LPA: every log page belongs to the controller (5.16) */
	if (sqe->nsid && sqe->nsid != NVME_NSID_ALL)
		return NVME_SC_INVALID_FIELD | SOFT_DNR;
	memset(&page, 0, sizeof(page));
	switch (sqe->cdw10 & 0xff) {
	case NVME_LOG_LID_ERROR:
		read_errors(soft, page.error);
		unmask(soft, sqe, NVME_AER_ERROR);
		break;
	case NVME_LOG_LID_SMART:
		read_smart(soft, &page.smart);
		unmask(soft, sqe, NVME_AER_SMART);
		break;
	case NVME_LOG_LID_CHANGED_NS:
		for (uint32_t i = 0; soft->namespace_changed && i < soft->namespaces; i++)
			page.changed[i] = i + 1;
		if (unmask(soft, sqe, NVME_AER_NOTICE))
			soft->namespace_changed = false;
		break;
	case NVME_LOG_LID_FW_SLOT:
		read_firmware(&page.firmware);
		break;
	default:
		return NVME_SC_INVALID_LOG_PAGE | NVME_SCT_CMD_SPECIFIC << 8 | SOFT_DNR;
	}
	return soft_copy_out(soft, sqe, &page, (uint32_t)dwords * 4);
}

void soft_bad_doorbell(struct soft *soft, uint16_t qid, bool cq, uint32_t value, uint32_t entries)
{
	/* not caused by a command: figure 206 */
	const struct hr_sqe none = { .cid = 0xffff };

	if (entries)
		hr_warn("soft:%s: queue %u: %s doorbell value %u is impossible now (%u entries)",
			soft->options.path, qid, cq ? "CQ head" : "SQ tail", value, entries);
	else
		hr_warn("soft:%s: queue %u: %s doorbell value %u, but there is no such queue",
			soft->options.path, qid, cq ? "CQ head" : "SQ tail", value);
	soft_log_error(soft, qid, &none, 0);
	soft_event(soft, entries ? EVENT_BAD_VALUE : EVENT_BAD_REGISTER);
}

/* May be called by any poller. */
void soft_event(struct soft *soft, enum soft_event event)
{
	__atomic_fetch_or(&soft->events, 1u << event, __ATOMIC_RELEASE);
}

void soft_warn(struct soft *soft, uint32_t critical)
{
	const uint32_t was = __atomic_fetch_or(&soft->critical, critical, __ATOMIC_ACQ_REL);
	const uint32_t now = critical & ~was;

	if (now & NVME_SMART_CRIT_SPARE)
		soft_event(soft, EVENT_SPARE);
	if (now & NVME_SMART_CRIT_TEMPERATURE)
		soft_event(soft, EVENT_TEMPERATURE);
	if (now & ~(uint32_t)(NVME_SMART_CRIT_SPARE | NVME_SMART_CRIT_TEMPERATURE))
		soft_event(soft, EVENT_RELIABILITY);
}

void soft_compare_temperature(struct soft *soft)
{
	const uint32_t over = soft->feature[NVME_FEAT_FID_TEMP_THRESH];

	if (kelvin(soft) >= over || kelvin(soft) <= soft->under_kelvin)
		soft_warn(soft, NVME_SMART_CRIT_TEMPERATURE);
	else
		__atomic_fetch_and(&soft->critical, ~(uint32_t)NVME_SMART_CRIT_TEMPERATURE,
				   __ATOMIC_RELAXED);
}

void soft_check_spare(struct soft *soft)
{
	if (100 - soft->options.spare_gone < SPARE_THRESHOLD)
		soft_warn(soft, NVME_SMART_CRIT_SPARE);
}

void soft_protect(struct soft *soft)
{
	if (__atomic_exchange_n(&soft->protected, 1, __ATOMIC_ACQ_REL) == 0)
		soft_event(soft, EVENT_NAMESPACE);
}

/* Type, information and log page of each event (5.2, figures 146 to 149), and the feature bit
 * that enables it (5.27.1.8). */
static const struct {
	uint8_t type, information, log;
	uint32_t enabled_by; /* 0: always enabled */
} kind[SOFT_EVENTS] = {
	[EVENT_BAD_REGISTER] = { NVME_AER_ERROR, NVME_AER_ERROR_INVALID_DB_REG, NVME_LOG_LID_ERROR,
				 0 },
	[EVENT_BAD_VALUE] = { NVME_AER_ERROR, NVME_AER_ERROR_INVALID_DB_VAL, NVME_LOG_LID_ERROR,
			      0 },
	[EVENT_RELIABILITY] = { NVME_AER_SMART, NVME_AER_SMART_SUBSYSTEM_RELIABILITY,
				NVME_LOG_LID_SMART,
				NVME_SMART_CRIT_DEGRADED | NVME_SMART_CRIT_MEDIA |
					NVME_SMART_CRIT_VOLATILE_MEMORY },
	[EVENT_TEMPERATURE] = { NVME_AER_SMART, NVME_AER_SMART_TEMPERATURE_THRESHOLD,
				NVME_LOG_LID_SMART, NVME_SMART_CRIT_TEMPERATURE },
	[EVENT_SPARE] = { NVME_AER_SMART, NVME_AER_SMART_SPARE_THRESHOLD, NVME_LOG_LID_SMART,
			  NVME_SMART_CRIT_SPARE },
	[EVENT_NAMESPACE] = { NVME_AER_NOTICE, NVME_AER_NOTICE_NS_CHANGED, NVME_LOG_LID_CHANGED_NS,
			      NVME_CTRL_OAES_NA },
};

/* The first pending event that may be sent, or SOFT_EVENTS. Disabled events are dropped. */
static uint32_t next_event(struct soft *soft)
{
	const uint32_t enabled = soft->feature[NVME_FEAT_FID_ASYNC_EVENT];
	const uint32_t events = __atomic_load_n(&soft->events, __ATOMIC_ACQUIRE);

	for (uint32_t e = 0; e < SOFT_EVENTS; e++) {
		if (!(events >> e & 1) || soft->masked >> kind[e].type & 1)
			continue;
		__atomic_fetch_and(&soft->events, ~(1u << e), __ATOMIC_RELAXED);
		if (!kind[e].enabled_by || kind[e].enabled_by & enabled)
			return e;
	}
	return SOFT_EVENTS;
}

/* DW0: type 2:0, information 15:8, log page 23:16. After an event, no other of its type is sent
 * until its log page has been read. */
void soft_events_send(struct soft *soft)
{
	uint32_t e;

	if (!__atomic_load_n(&soft->events, __ATOMIC_ACQUIRE) || !soft->aers ||
	    !soft_cq_room(soft, &soft->cq[0]))
		return;
	e = next_event(soft);
	if (e == SOFT_EVENTS)
		return;
	soft->masked |= 1u << kind[e].type;
	soft->namespace_changed |= e == EVENT_NAMESPACE;
	soft_post(&soft->sq[0], soft->aer[--soft->aers],
		  (uint32_t)kind[e].log << 16 | (uint32_t)kind[e].information << 8 | kind[e].type,
		  0);
}
