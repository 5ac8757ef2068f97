/*
 * gpu/ops/filter_sum.h - arguments, state and result of the operator filter_sum (TPC-H Q6).
 */
#ifndef GPU_OPS_FILTER_SUM_H
#define GPU_OPS_FILTER_SUM_H

#include <stdint.h>

/* The columns, in the order of the sources, little-endian. */
enum hr_filter_column {
	HR_FILTER_SHIPDATE, /* int32: days since 1970-01-01 */
	HR_FILTER_DISCOUNT, /* int32: hundredths */
	HR_FILTER_QUANTITY, /* int32: units */
	HR_FILTER_PRICE,    /* int64: hundredths (cents) */
	HR_FILTER_COLUMNS,
};

#define HR_FILTER_DISCOUNT_MAX 100 /* hundredths: sums of products stay exact because of it */

struct hr_filter_args {
	int32_t shipdate_from, shipdate_before; /* from <= shipdate < before */
	int32_t discount_from, discount_to; /* from <= discount <= to; 0..HR_FILTER_DISCOUNT_MAX */
	int32_t quantity_below;		    /* quantity < below */
};

/* State of a worker, and the result. */
struct hr_filter_sum {
	uint64_t low, high; /* sum of price * discount: 128 bit two's complement, in 1/10000 */
	uint64_t rows, matched;
};

#endif
