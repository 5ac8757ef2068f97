/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cache/objects/objects.h - objects for access operators: the calls that the worker code of an operator
 * makes. Both backends. gpu/ops/operator.h includes it.
 *
 * All calls are collective: all lanes of a worker (a warp) call together. Arguments of calls "per
 * lane" differ between lanes; a lane without a request passes HR_NO_INDEX. Arguments of other calls
 * are the same in all lanes. Workers of a block do not have to call together.
 *
 * Offsets and lengths are bytes of the object; any value is allowed. A read returns the number of
 * bytes before the end of the object (0 at or beyond the end), or a negative error:
 *   -EINVAL    the object is NULL, or a call writes an object that the operator only reads
 *   -ERANGE    an element or a page beyond the object
 *   -EIO       a page cannot be read: the failure is recorded with object, page, LBA and status
 *   -EBADMSG   the operator cannot accept an element: it has set objects->error, error_object (the
 *              index of the object) and error_index (the element)
 *   -EDEADLK   workers keep pages of hr_page() for which the cache has too few frames; or
 *              hr_workers_sync() waits for a worker that has returned from run()
 *   -ECANCELED the run ends: the host asked for it, or another worker has failed
 * objects->error keeps the first error, and all further calls return it at once. The operator
 * returns from run() soon after an error, and the run has failed then.
 *
 * Visibility. A worker sees its own writes: each lane sees the writes of the others after the
 * call. A worker that learns of a write through hr_workers_sync(), or through a word with release
 * and acquire, sees the write in later calls; a page that hr_page() returned before may be older. A
 * reader at the same time as a writer sees each aligned 4-byte word old or new.
 * Durability. After hr_flush() has returned 0, all data are durable that this worker, or workers of
 * whose writes it had learned, had written before the call. When a run ends without a failure, all
 * data are durable.
 */
#ifndef CACHE_OBJECTS_OBJECTS_H
#define CACHE_OBJECTS_OBJECTS_H

#include "cache/objects/find.h" /* struct hr_objects: error, scratch, worker, workers */
#include "nvme/queue/worker.h"

/* The object with that index in the operator's description (config/operator.h), or NULL: there is
 * none, or the configuration leaves out an optional one. */
HR_WORKER const struct hr_object *hr_get_object_map(const struct hr_objects *objects,
						    uint32_t index)
{
	return hr_cache_object(objects->cache, index);
}

/* Copy [offset, offset + bytes) of the object to `to`, memory that all lanes access. Bytes copied, or
 * an error. Fastest when `to` and the offset are equal modulo 16. */
HR_WORKER int64_t hr_pread(struct hr_objects *objects, const struct hr_object *object,
			   uint64_t offset, void *to, uint64_t bytes);

/* Copy `bytes` to [offset, ...) of the object, which does not grow. Bytes copied, or an error. The
 * data are in the cache; hr_flush() makes them durable. A page that is not in the cache is read
 * first, unless the call writes all of it and the run has one gpu. */
HR_WORKER int64_t hr_pwrite(struct hr_objects *objects, const struct hr_object *object,
			    uint64_t offset, const void *from, uint64_t bytes);

/*
 * Request the pages of [offset, offset + bytes) without waiting for them. Returns an id for
 * hr_consume_prefetch_pread() of any worker of the run, or an error. Pages beyond half of the frames
 * are not requested, nor pages whose ring is half full; consuming requests those, and waits.
 */
HR_WORKER int64_t hr_pread_prefetch(struct hr_objects *objects, const struct hr_object *object,
				    uint64_t offset, uint64_t bytes);

/* hr_pread() of `bytes` from the offset where the prefetch of that id began; its pages are cached or
 * requested. -EINVAL: no such id. An id may be used any number of times, or never. */
HR_WORKER int64_t hr_consume_prefetch_pread(struct hr_objects *objects, int64_t id, void *to,
					    uint64_t bytes);

/*
 * Per lane: element `index` of an object of such elements, little-endian; 0 for HR_NO_INDEX, for an
 * index beyond the object (objects->error becomes -ERANGE), and after an error. The object may differ
 * between lanes, too.
 */
HR_WORKER uint32_t hr_get_u32(struct hr_objects *objects, const struct hr_object *object,
			      uint64_t index);
HR_WORKER uint64_t hr_get_u64(struct hr_objects *objects, const struct hr_object *object,
			      uint64_t index);
HR_WORKER float hr_get_f32(struct hr_objects *objects, const struct hr_object *object,
			   uint64_t index);

/* Per lane: write an element. Lanes with the same index: one of the values is written. */
HR_WORKER void hr_set_u32(struct hr_objects *objects, const struct hr_object *object,
			  uint64_t index, uint32_t value);
HR_WORKER void hr_set_u64(struct hr_objects *objects, const struct hr_object *object,
			  uint64_t index, uint64_t value);

/*
 * Per lane: page `page` of the object in place, hr_page_bytes() of it (bytes beyond the end of the
 * object are undefined), 16-byte aligned, read-only, valid until the worker's next hr_quiescent(),
 * hr_flush() or hr_workers_sync(). NULL: HR_NO_INDEX, beyond the object (-ERANGE), or an error.
 *
 * While a worker keeps pages, no frame that a page leaves is used again, for no worker of the run. So
 * a worker keeps pages for a short time, and makes few other calls meanwhile: when an I/O worker finds
 * no frame for the time that struct hr_page_cache states, the run ends with -EDEADLK. In a build with
 * the address sanitizer the page is a copy, and a use of it after hr_quiescent() is reported.
 */
HR_WORKER const void *hr_page(struct hr_objects *objects, const struct hr_object *object,
			      uint64_t page);

/* Per lane: the same, for a page that the cache or that of another gpu has now. NULL: none has it,
 * or as above, but a page beyond the object is no error. The call does not request the page, and
 * does not wait for it. Of pages that other gpus have, copies of a few are requested. */
HR_WORKER_SLOW const void *hr_page_try(struct hr_objects *objects, const struct hr_object *object,
				       uint64_t page);
HR_WORKER uint32_t hr_page_bytes(const struct hr_objects *objects);

/* Frames of the cache of this gpu, for all its workers. */
HR_WORKER uint64_t hr_frames(const struct hr_objects *objects);

/* Per lane: request page `page` of the object without waiting for it; none for HR_NO_INDEX, for a page
 * beyond the object, for a page that is cached or requested, and when its ring is half full. */
HR_WORKER_SLOW void hr_page_prefetch(struct hr_objects *objects, const struct hr_object *object,
				     uint64_t page);

/* State that the worker uses no page any more, and check whether the run has ended (objects->error).
 * Calls other than hr_page() and hr_page_try() also do this from time to time while the worker holds
 * no page. A worker that computes for a long time without another call must call this, because frames
 * are used again only after all workers have done so, and because the host ends a run as hanging when
 * a worker has not done so for two minutes (operator_s of the pipeline). */
HR_WORKER void hr_quiescent(struct hr_objects *objects);

/* Make writes durable: write dirty pages back, then NVMe FLUSH where a volatile cache is. 0 or an
 * error. Pages of hr_page() become invalid. */
HR_WORKER_SLOW int hr_flush(struct hr_objects *objects);

/* Wait for all compute workers of the run; their earlier writes are visible then. Pages of hr_page()
 * become invalid. Returns 0 or an error. All workers call it equally often: -EDEADLK when a worker
 * has ended before. */
HR_WORKER_SLOW int hr_workers_sync(struct hr_objects *objects);

#include "cache/objects/copy.h"
#include "cache/objects/element.h"
#include "cache/objects/pages.h"
#include "cache/objects/ranks.h"

#endif
