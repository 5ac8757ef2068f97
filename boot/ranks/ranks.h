/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/ranks/ranks.h - the seam to the processes of one job (ranks), and the binary interface of the
 * plugin headrace-mpi.so, which implements it with MPI. The plugin includes only this header.
 *
 * A rank is an engine with ssds and gpus of its own. All ranks run the same configuration, and call
 * the collective functions below in the same order. When a rank has nothing to do or has failed, it
 * still calls them; so every rank has to learn by max() that another one has failed, before it
 * calls gather() for data that this rank does not have.
 *
 * A rank that ends without close() ends the job: the launcher (mpirun, srun) ends the others. MPI
 * allocates memory, so only stopped() may be called between hr_seal() and hr_unseal(). One thread
 * of the process makes all calls.
 */
#ifndef BOOT_RANKS_RANKS_H
#define BOOT_RANKS_RANKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Increased by every change of a declaration below. */
#define HR_RANKS_ABI 2u

#define HR_RANKS_MAX 65536u /* ranks of a job */

struct hr_ranks;

/*
 * Functions that return int return 0 or -errno. After an error, `why` in struct hr_ranks has a text
 * for the user, and of the other functions only stop(), stopped() and close() may be called.
 */
struct hr_ranks_ops {
	/*
	 * Collective. Collect memory of all ranks at rank 0, in the order of their numbers: rank i
	 * has lengths[i] bytes. On every rank `from` has its own `bytes`. On rank 0 lengths[size] is
	 * given, lengths[0] is bytes, and `to` has their sum; `to` and lengths are NULL on others.
	 */
	int (*gather)(struct hr_ranks *ranks, const void *from, uint64_t bytes, void *to,
		      const uint64_t *lengths);
	/*
	 * Collective. Merge the `bytes` at `data` of all ranks, the same number on each, into those
	 * of rank 0, pairwise and in the order of the ranks: merge(arg, into, from), where the ranks
	 * of `from` follow those of `into`. data of other ranks changes. other: memory of the same
	 * size, for data of another rank.
	 */
	int (*reduce)(struct hr_ranks *ranks, void *data, void *other, uint64_t bytes,
		      void (*merge)(void *arg, void *into, const void *from), void *arg);
	/* Collective. *most is the greatest value of all ranks. A rank returns when all ranks have
	 * called it, and calls idle() meanwhile. */
	int (*max)(struct hr_ranks *ranks, uint32_t value, uint32_t *most);
	/*
	 * Ask all ranks to stop, which then find it by stopped(): of the same machine at once, of
	 * other machines at once when the network writes to their memory without their help, else
	 * with their next call of max() or gather(). Waits for none of them longer than that. Not
	 * collective.
	 */
	void (*stop)(struct hr_ranks *ranks);
	/* True after stop() of any rank. A load of one word: allocates nothing, calls nothing. */
	bool (*stopped)(const struct hr_ranks *ranks);
	/* Collective; the last call. Every rank calls it and then ends. */
	void (*close)(struct hr_ranks *ranks);
};

/* The job, as open() fills it in. */
struct hr_ranks {
	const struct hr_ranks_ops *ops;
	void *impl;
	uint32_t rank, size; /* number of this process, 0 .. size - 1; all processes */
	uint32_t local_rank; /* its number among those of its machine */
	/* Set by the owner: called now and then while max() or gather() wait for another rank; it may
	 * call stop(). NULL: none. */
	void (*idle)(void *to);
	void *idle_to;
	char why[512]; /* after an error */
};

/* Exported by a plugin as the symbol HR_RANKS_SYMBOL. */
struct hr_ranks_plugin {
	uint32_t abi;	/* HR_RANKS_ABI; the only member of every version */
	uint32_t bytes; /* sizeof(struct hr_ranks) */
	/*
	 * Join the job. `ranks` is all zero. -ENOTCONN: this process was not started by a launcher;
	 * else the error of the library. After an error `why` has a text.
	 */
	int (*open)(struct hr_ranks *ranks);
};

#define HR_RANKS_SYMBOL "hr_ranks_plugin"

#endif
