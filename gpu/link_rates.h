/*
 * gpu/link_rates.h - the maximum rates of the link between host memory and a GPU, for any program:
 * the reference for the rates of worker blocks. Bytes a second, each direction separately.
 */
#ifndef GPU_LINK_RATES_H
#define GPU_LINK_RATES_H

#include <stdint.h>

#define HR_LIMIT_WARPS 3u /* warps that single pages are measured with: 16, 32, 64 */

struct hr_link_rates {
	double copy_in, copy_out; /* by the copy engine, host to GPU memory and back, alone */
	double copy_both;	  /* each direction while both run */
	/* by GPU threads that access host memory, one direction alone */
	double load, store;
	double load_store; /* each direction while both run */
	/* random 4 KiB pages into GPU memory, per number of warps */
	double page[HR_LIMIT_WARPS];
	double bulk; /* the same by the bulk copy engine of SMs, 16 warps; 0: none */
	/* the GPU writes a word, the CPU answers, the GPU sees the answer */
	double round_trip_ns;
};

#define HR_LIMIT_BLOCK_WARPS 16u /* warps of a block that measures */

/* Bytes a second that a GPU reads of the memory of another one. */
struct hr_peer_rates {
	double load;	  /* loads by all SMs */
	double load_both; /* the same of each GPU while both read the other one */
	double page; /* random pages of 4 KiB, copied to its own memory by the given number of warps */
};

/* Number of warps of page[i]. */
static inline uint32_t hr_limit_warps(uint32_t i)
{
	return 16u << i;
}

#endif
