/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu/tap/client/feed.h - fill the tiles of a headrace pipeline from this process, where they lie.
 * Programs include it as headrace/feed.h.
 *
 *   struct hr_feed *feed;
 *   struct hr_feed_tile tile;
 *   char why[HR_FEED_REASON];
 *   int n;
 *
 *   if (hr_feed_open("camera", NULL, &feed, why, sizeof why) != 0)
 *           errx(1, "%s", why);
 *   while (more() && (n = hr_feed_next(feed, &tile, 1, -1)) == 1) {
 *           uint32_t bytes = fill(tile.data, tile.room);       (fewer bytes: the last tile)
 *           hr_feed_commit(feed, &tile, bytes);
 *   }
 *   if (hr_feed_end(feed, -1) != 0)
 *           errx(1, "%s", hr_feed_reason(feed));
 *   hr_feed_close(feed);
 *
 * Link with -lheadrace-tap. The library needs libc only, and libcuda.so.1 for tiles on a GPU. A tile is
 * memory that this process shares with
 * the pipeline. It belongs to this process until it is committed; then it must not be written to any
 * more. A pipeline that has no free tile lets its producer wait.
 *
 * Tile t holds the bytes from t * tile_bytes on. A producer that attaches gets the tiles that are not
 * committed yet. When the engine fails, tiles from info->durable on may be wanted again, and a sink
 * object holds each tile exactly once. hr_feed_durable() tells how many tiles are safe.
 *
 * Tiles may lie in the memory of a GPU (info->gpu). Then the library loads libcuda.so.1, and maps them
 * into the primary context of that GPU. hr_feed_commit_stream() commits a tile after the work that a
 * stream has been given; hr_feed_commit() after that work is done.
 *
 * A handle belongs to one thread at a time; other threads can fill tiles. After fork() it works in the
 * parent only: in the child each call returns -EPIPE, and hr_feed_close() frees the child's copy.
 *
 * Errors are negative errno values.
 */
#ifndef GPU_TAP_CLIENT_FEED_H
#define GPU_TAP_CLIENT_FEED_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HR_FEED_API __attribute__((visibility("default")))
#define HR_FEED_REASON 256 /* bytes of a reason, with its NUL */

struct hr_feed; /* an attached feed; one per hr_feed_open() */

/* All zero, or NULL in its place: defaults. */
struct hr_feed_options {
	uint32_t credits; /* tiles to hold at a time; 0: as many as the feed allows */
	const char *name; /* of this producer, for messages of the feed; NULL: program name */
	/* of the socket; NULL: $RUNTIME_DIRECTORY, $XDG_RUNTIME_DIR/headrace, /run/headrace, the first
	 * that has it */
	const char *directory;
	/* For tiles in GPU memory, the GPU that fills them: its number in this process + 1; 0: the GPU
	 * that has them. Another one needs peer access, and both must be visible in this process. */
	int gpu;
};

/* What the feed wants; constant while it is attached. */
struct hr_feed_info {
	uint64_t epoch;	     /* random, of this bring-up of the pipeline */
	uint64_t tiles;	     /* of the run at most */
	uint64_t first;	     /* first tile that is not committed: hr_feed_next() returns it first */
	uint64_t durable;    /* tiles that are durable in the sink, at the time of hr_feed_open() */
	uint32_t tile_bytes; /* of a full tile */
	uint32_t credits;    /* tiles that this producer can hold */
	uint32_t columns;    /* elements of a row; 0: not configured */
	const char *dtype;   /* type of the elements: "f32", "bf16", ...; "": not configured */
	const char *pipeline;
	/* of all tiles; an address on the GPU, when there is one: this process cannot access it */
	void *memory;
	size_t memory_bytes;
	int gpu; /* number in this process of the GPU that fills it; -1: host memory */
};

struct hr_feed_tile {
	/* page aligned, on the GPU when info->gpu >= 0; zeros, or data of an earlier tile of this
	 * producer, on a GPU of any earlier producer */
	void *data;
	uint64_t tile;	    /* number in the feed, from 0: its data begin at tile * tile_bytes */
	uint32_t room;	    /* bytes of a full tile */
	uint32_t slot, gen; /* for hr_feed_commit() */
};

/*
 * Attach to the feed of that name. 0, with *feed; the caller detaches with hr_feed_close(). -ENOENT,
 * -ECONNREFUSED: no pipeline with this feed runs; -EACCES: this user may not attach; -EBUSY: another
 * producer is attached, or the process of the last one lives and has the tiles on a GPU mapped;
 * -EPROTONOSUPPORT: the feed has another version; -EPIPE: its run ends now; -EPROTO: the other side is
 * not a feed; -ENODEV: the tiles are on a GPU that is not visible in this process, or options->gpu is
 * not; -ENOTSUP: that GPU has no access to their memory; -ENOTSUP, -EIO: the driver cannot map them;
 * -ENOMEM, -EMFILE. `why` (NULL: not wanted) gets one line.
 */
HR_FEED_API int hr_feed_open(const char *name, const struct hr_feed_options *options,
			     struct hr_feed **feed, char *why, size_t why_bytes);

HR_FEED_API const struct hr_feed_info *hr_feed_info(const struct hr_feed *feed);

/*
 * Get up to `max` tiles to fill, at least one. Waits for at most timeout_ms; 0: does not wait;
 * negative: no limit. Returns their number; 0: the feed wants no further tile; -ETIMEDOUT; -EPIPE:
 * the pipeline has stopped before its end or is gone, or this producer was dropped: hr_feed_reason()
 * tells. -EINVAL: max is 0.
 */
HR_FEED_API int hr_feed_next(struct hr_feed *feed, struct hr_feed_tile *tile, uint32_t max,
			     int timeout_ms);

/*
 * Hand a tile of hr_feed_next() with its first `bytes` bytes to the pipeline. Fewer bytes than
 * tile->room: it is the last tile, and no later one may be committed. -EINVAL: it is no tile that this
 * process holds, or has another length: 0, more than room, or not whole rows of the operator (which
 * the pipeline checks, and drops the producer).
 */
HR_FEED_API int hr_feed_commit(struct hr_feed *feed, const struct hr_feed_tile *tile,
			       uint32_t bytes);

/*
 * Commit a tile in GPU memory when the stream (CUstream, cudaStream_t; NULL: the legacy default stream)
 * has done all work that it has been given before this call. Does not wait. As hr_feed_commit();
 * -EINVAL: also when the tiles lie in host memory; -EIO: the driver refuses, and the tile is still
 * held.
 */
HR_FEED_API int hr_feed_commit_stream(struct hr_feed *feed, const struct hr_feed_tile *tile,
				      uint32_t bytes, void *stream);

/*
 * A descriptor for poll, select or epoll. It becomes readable when hr_feed_next() has something to
 * return: then call that with timeout_ms = 0 until it returns -ETIMEDOUT, which also arms the
 * descriptor again, so do the same before the first wait. It becomes readable, too, when the run has
 * ended. It may be readable without a tile. It belongs to the handle. -EPIPE: after fork().
 *
 * The pipeline's workers make no system calls, so a thread of the appliance looks each half
 * millisecond whether the producer waits, and sends a message.
 */
HR_FEED_API int hr_feed_fd(struct hr_feed *feed);

/*
 * No further tile is committed: the feed ends before the first tile that is not committed. Waits for at
 * most timeout_ms (negative: no limit) for the end of the run. 0: it has succeeded, and its sink object
 * is durable; -ETIMEDOUT: not yet, call again; -EPIPE as above. With tiles on a GPU it waits first for
 * all work of this process there; -EIO: the driver has failed.
 */
HR_FEED_API int hr_feed_end(struct hr_feed *feed, int timeout_ms);

/* Number of tiles, from the first on, that are durable in the sink object; 0 without one. Grows with
 * each checkpoint of the configuration, and at the end of the run. */
HR_FEED_API uint64_t hr_feed_durable(const struct hr_feed *feed);

/* One line about the end of the run or connection; "" before it. Valid until hr_feed_close(). */
HR_FEED_API const char *hr_feed_reason(const struct hr_feed *feed);

/* Exit code of the run after hr_feed_end() has returned 0, or a call -EPIPE; -1: not known. */
HR_FEED_API int hr_feed_code(const struct hr_feed *feed);

/* Detach, and unmap the tiles, after all work of this process on their GPU. Tiles that were not
 * committed go to the next producer, for which the run waits unless the feed has ended. */
HR_FEED_API void hr_feed_close(struct hr_feed *feed);

#ifdef __cplusplus
}
#endif

#endif
