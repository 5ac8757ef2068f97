/*
 * gpu/link_rates.h - what the link between host memory and a GPU gives to any program: the
 * measure for what worker blocks reach. Bytes a second, each direction for itself.
 */
#ifndef GPU_LINK_RATES_H
#define GPU_LINK_RATES_H

#include <stdint.h>

#define HR_LIMIT_WARPS 3u /* numbers of warps for which single pages are measured: 16, 32, 64 */

struct hr_link_rates {
	double copy_in, copy_out;    /* by the copy engine, host to GPU memory and back, alone */
	double copy_both;	     /* of each of the two at once */
	double load, store;	     /* by threads of the GPU, of host memory, alone */
	double load_store;	     /* of each of the two at once */
	double page[HR_LIMIT_WARPS]; /* random 4 KiB pages into GPU memory, by so many warps */
	double bulk; /* the same by the bulk copy engine of SMs, 16 warps; 0: it has none */
	double round_trip_ns; /* GPU writes a word, the CPU answers, the GPU has seen it */
};

/* Warps of page[i]. */
static inline uint32_t hr_limit_warps(uint32_t i)
{
	return 16u << i;
}

#endif
