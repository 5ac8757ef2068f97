/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu/tap/client/tap.h - take the tiles of a headrace pipeline in this process, where they lie.
 * Programs include it as headrace/tap.h.
 *
 *   struct hr_tap *tap;
 *   struct hr_tap_tile tile;
 *   char why[HR_TAP_REASON];
 *   int n;
 *
 *   if (hr_tap_open("train", NULL, &tap, why, sizeof why) != 0)
 *           errx(1, "%s", why);
 *   while ((n = hr_tap_next(tap, &tile, 1, -1)) == 1) {
 *           use(tile.data, tile.bytes);
 *           hr_tap_done(tap, &tile);
 *   }
 *   hr_tap_close(tap);                     (n is 0: no further tile; or -errno)
 *
 * Link with -lheadrace-tap. The library needs libc only, and libcuda.so.1 for tiles on a GPU. A
 * tile is memory of the pipeline, mapped for reading. It stays as it is until it is given back;
 * then it must not be read any more. A consumer that gives nothing back gets no further tiles,
 * and with lag = "block" the pipeline waits for it. Tiles of a process that ends, or detaches, go
 * to another consumer.
 *
 * A handle is for one run of the pipeline: after its last tile, hr_tap_open() attaches to the next
 * run. An engine that dies or fails is the exception, because `headrace boot` starts another one,
 * which runs the pipeline again from its first tile: hr_tap_next() returns -ECONNRESET once, so
 * that the program can drop what it has from the broken run, and the next call attaches to the new
 * run. Tiles in hand stay readable, and are given back as always.
 *
 * A handle belongs to one thread at a time. After fork() it works in the parent only: in the child
 * each call returns -EPIPE, and hr_tap_close() frees the child's copy.
 *
 * Tiles may lie in the memory of a GPU. Then the library loads libcuda.so.1, and maps them into the
 * primary context of that GPU, which CUDA's runtime, PyTorch and CuPy use. A tile is complete when
 * hr_tap_next() returns it: work on it needs no wait. hr_tap_done_stream() gives it back after work
 * that a stream has been given.
 *
 * Errors are negative errno values.
 */
#ifndef GPU_TAP_CLIENT_TAP_H
#define GPU_TAP_CLIENT_TAP_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HR_TAP_API __attribute__((visibility("default")))
#define HR_TAP_REASON 256 /* bytes of a reason, with its NUL */

struct hr_tap; /* an attached tap; one per hr_tap_open() */

/* All zero, or NULL in its place: defaults. */
struct hr_tap_options {
	/* Tiles to hold at a time. 0: as many as the tap allows, a share that follows the rates
	 * of all consumers; a number, at most what the tap allows, is kept all the time. */
	uint32_t credits;
	const char *name; /* of this consumer, for messages of the tap; NULL: program name */
	const char
		*directory; /* of the socket; NULL: $RUNTIME_DIRECTORY, $XDG_RUNTIME_DIR/headrace,
				   /run/headrace, the first that has it */
	/* Milliseconds that hr_tap_open() waits for a run to begin when the appliance has none now;
	 * 0: a minute; negative: no limit. */
	int wait_ms;
	/* For tiles in GPU memory, the GPU that reads them: its number in this process + 1; 0: the GPU
	 * that has them. Another one needs peer access, and both must be visible in this process. */
	int gpu;
};

/* What the tap delivers; constant while it is attached. hr_tap_next() that attaches to the run of
 * another engine changes it. */
struct hr_tap_info {
	uint64_t epoch;	     /* random, of this run of the pipeline */
	uint64_t tiles;	     /* of the run */
	uint32_t tile_bytes; /* of a full tile */
	uint32_t credits;    /* limit of tiles that this consumer can hold */
	uint32_t columns;    /* elements of a row; 0: not configured */
	int each;	     /* 1: each consumer gets all tiles; 0: each tile has one consumer */
	const char *dtype;   /* type of the elements: "f32", "bf16", ...; "": not configured */
	const char *pipeline;
	/* of all tiles; an address on the GPU, when there is one: this process cannot read it */
	const void *memory;
	size_t memory_bytes;
	int gpu; /* number in this process of the GPU that reads it; -1: host memory */
};

struct hr_tap_tile {
	const void *data; /* page aligned; `bytes` can be read, on the GPU when info->gpu >= 0 */
	uint64_t tile;	  /* number in the pipeline, from 0 */
	uint32_t bytes;
	uint32_t redelivered; /* 1: another consumer had it and did not give it back */
	/* when the pipeline handed it out: CLOCK_MONOTONIC; the GPU's clock for tiles on a GPU */
	uint64_t lent_ns;
	/* By the same clock: when it was computed (0: not known), and when the tap freed its
	 * memory from the tile before it, which had been given back (0: there was none). */
	uint64_t ready_ns, freed_ns;
	uint64_t epoch;	    /* of its run: of hr_tap_info() then */
	uint32_t slot, gen; /* for hr_tap_done() */
};

/*
 * Attach to the tap of that name. When the appliance has the tap, but no run of it now (its
 * pipeline waits for its next start, or the engine comes up), wait for the next run. 0, with *tap;
 * the caller detaches with hr_tap_close(). -ENOENT, -ECONNREFUSED: no appliance with this tap runs;
 * -ETIMEDOUT: no run began in time; -EACCES: this user may not attach; -EPROTONOSUPPORT: the tap
 * has another version; -EBUSY: all seats are in use; -EPIPE: the pipeline has ended, and does not
 * run again; -EPROTO: the other side is not a tap; -ENODEV: the tiles are on a GPU that is not
 * visible in this process, or options->gpu is not; -ENOTSUP: that GPU has no access to their memory;
 * -ENOTSUP, -EIO: the driver cannot map them; -ENOMEM, -EMFILE. `why`
 * (NULL: not wanted) gets one line of text.
 */
HR_TAP_API int hr_tap_open(const char *name, const struct hr_tap_options *options,
			   struct hr_tap **tap, char *why, size_t why_bytes);

HR_TAP_API const struct hr_tap_info *hr_tap_info(const struct hr_tap *tap);

/*
 * Take up to `max` tiles, at least one. Waits for at most timeout_ms; 0: does not wait; negative:
 * no limit. Returns their number; 0: no further tile comes, so give back what is in hand, and close
 * (a tile may come after all, when another consumer ends without giving it back); -ETIMEDOUT.
 * -ECONNRESET, once: the run has ended before its last tile, and the appliance makes another one;
 * the next call waits for it. -EPIPE: the run has ended before its last tile, and no other one
 * comes, the appliance is gone, or this consumer was dropped. hr_tap_reason() gives the reason of
 * both. Tiles in hand stay readable then. -EINVAL: max is 0. -ENOMEM: the memory of the new run
 * cannot be mapped.
 */
HR_TAP_API int hr_tap_next(struct hr_tap *tap, struct hr_tap_tile *tile, uint32_t max,
			   int timeout_ms);

/* Give a tile of hr_tap_next() back; its memory is used again at once. -EINVAL: it is not in
 * hand. */
HR_TAP_API int hr_tap_done(struct hr_tap *tap, const struct hr_tap_tile *tile);

/*
 * Give a tile in GPU memory back when the stream (CUstream, cudaStream_t; NULL: the legacy default
 * stream) has done all work that it has been given before this call. Does not wait. -EINVAL: it is
 * not in hand, or not in GPU memory; -EIO: the driver refuses, and the tile is still in hand.
 */
HR_TAP_API int hr_tap_done_stream(struct hr_tap *tap, const struct hr_tap_tile *tile, void *stream);

/*
 * Give a tile back because its work has failed: with deliver = "one" another consumer gets it, or
 * this one when there is no other. A tile that was given back so as many times as the tap permits
 * (key `tries`) is dropped and counted. With deliver = "each" it counts as failed for this
 * consumer. -EINVAL: it is not in hand.
 */
HR_TAP_API int hr_tap_fail(struct hr_tap *tap, const struct hr_tap_tile *tile);

/*
 * A descriptor for poll, select or epoll. It becomes readable when hr_tap_next() has something to
 * return: then call that with timeout_ms = 0 until it returns -ETIMEDOUT, which also arms the
 * descriptor again, so do the same before the first wait. It may be readable without a tile. It
 * belongs to the handle, and stays the same when the handle attaches to another run. -EMFILE,
 * -ENOMEM.
 *
 * The pipeline's workers make no system calls, so a thread of the appliance looks each half
 * millisecond which consumers wait, and sends a message: a tile comes about a millisecond later
 * than by hr_tap_next(), which looks at the memory itself. Several tiles that came meanwhile come
 * at once.
 */
HR_TAP_API int hr_tap_fd(struct hr_tap *tap);

/* One line about the end of the run or connection; "" before it. Valid until hr_tap_close(). */
HR_TAP_API const char *hr_tap_reason(const struct hr_tap *tap);

/* Exit code of the run after hr_tap_next() has returned 0 or -EPIPE; -1: not known. */
HR_TAP_API int hr_tap_code(const struct hr_tap *tap);

/* Detach, and unmap the tiles. Tiles that were not given back go to another consumer. */
HR_TAP_API void hr_tap_close(struct hr_tap *tap);

#ifdef __cplusplus
}
#endif

#endif
