/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/demo/gen.c - the demo's data: a lineitem table like TPC-H's, embeddings, and weights.
 *
 * Usage: gen DIR [SEED [ROWS]]       the same seed gives the same bytes on every machine
 *
 * lineitem (default 4,200,007 rows) follows TPC-H 4.2.3 for scale factor 1, in the columns of Q6:
 *   order           1 to 7 lines each; o_orderdate uniform in 1992-01-01 .. 1998-08-02
 *   l_shipdate      o_orderdate + 1..121 days
 *   l_discount      0.00 .. 0.10, in hundredths
 *   l_quantity      1 .. 50
 *   l_extendedprice l_quantity * retail price of a part key uniform in 1..200000, in cents:
 *                   90000 + key / 10 mod 20001 + 100 * (key mod 1000)
 * written twice: a little-endian file per column (l_shipdate.i32 as days since 1970-01-01,
 * l_discount.i32, l_quantity.i32, l_extendedprice.i64), and lineitem.csv with the date as
 * YYYY-MM-DD, so that a check from the CSV shares no encoding with the columns.
 *
 * embeddings.f32: 65,536 rows of 128 numbers k/128, k uniform in -127..127: products and sums of
 * a dot product are exact in f32, in any order.
 *
 * weights.f32: 4,000,003 numbers for the cast: random bit patterns, every eighth one just at,
 * below or above the middle between two bf16 numbers, and every 1024th zero, subnormal, largest,
 * infinite or NaN.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS_DEFAULT 4200007ul
#define EMBEDDINGS 65536u
#define DIMENSIONS 128u
#define WEIGHTS 4000003u

#define FIRST_ORDER 8035u /* 1992-01-01 in days since 1970-01-01 */
#define LAST_ORDER 10440u /* 1998-08-02 */
#define PART_KEYS 200000u

/* splitmix64; each table has its own stream, so that sizes can change independently. */
struct random {
	uint64_t state;
};

static uint64_t next(struct random *r)
{
	uint64_t z = r->state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

/* Uniform in low .. high, by multiplication of the upper half. */
static uint32_t between(struct random *r, uint32_t low, uint32_t high)
{
	return low + (uint32_t)((next(r) >> 32) * (high - low + 1u) >> 32);
}

static _Noreturn void die(const char *what)
{
	fprintf(stderr, "gen: %s: %s\n", what, strerror(errno));
	exit(EXIT_FAILURE);
}

static FILE *create(const char *dir, const char *name)
{
	char path[4096];
	FILE *f;

	if ((size_t)snprintf(path, sizeof path, "%s/%s", dir, name) >= sizeof path)
		errno = ENAMETOOLONG;
	else if ((f = fopen(path, "wb")))
		return f;
	die(path);
}

static void put(FILE *f, const void *value, size_t bytes)
{
	if (fwrite(value, bytes, 1, f) != 1)
		die("write");
}

static void finish(FILE *f)
{
	if (fclose(f))
		die("write");
}

/* Days since 1970-01-01 as YYYY-MM-DD, for the years of the table (leap years: every fourth). */
static void format_date(uint32_t days, char text[sizeof "YYYY-MM-DD"])
{
	static const uint8_t month_days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
	uint32_t year = 1970, month = 0, length;

	while (days >= (length = year % 4 ? 365 : 366)) {
		days -= length;
		year++;
	}
	while (days >= (length = month_days[month] + (month == 1 && year % 4 == 0 ? 1u : 0u))) {
		days -= length;
		month++;
	}
	snprintf(text, sizeof "YYYY-MM-DD", "%04u-%02u-%02u", year % 10000, (month + 1) % 100,
		 (days + 1) % 100);
}

static void generate_lineitem(const char *dir, uint64_t seed, uint64_t rows)
{
	struct random r = { seed };
	FILE *shipdates = create(dir, "l_shipdate.i32"), *discounts = create(dir, "l_discount.i32");
	FILE *quantities = create(dir, "l_quantity.i32");
	FILE *prices = create(dir, "l_extendedprice.i64"), *csv = create(dir, "lineitem.csv");
	uint32_t order_lines = 0, order_date = 0;
	char date[sizeof "YYYY-MM-DD"];

	fputs("l_shipdate,l_discount,l_quantity,l_extendedprice\n", csv);
	for (; rows > 0; rows--, order_lines--) {
		if (!order_lines) {
			order_lines = between(&r, 1, 7);
			order_date = between(&r, FIRST_ORDER, LAST_ORDER);
		}
		uint32_t quantity = between(&r, 1, 50), key = between(&r, 1, PART_KEYS);
		uint32_t discount = between(&r, 0, 10), shipdate = order_date + between(&r, 1, 121);
		uint64_t price =
			(uint64_t)quantity * (90000u + key / 10 % 20001 + 100 * (key % 1000));

		put(shipdates, &shipdate, sizeof shipdate);
		put(discounts, &discount, sizeof discount);
		put(quantities, &quantity, sizeof quantity);
		put(prices, &price, sizeof price);
		format_date(shipdate, date);
		fprintf(csv, "%s,%u,%u,%lu\n", date, discount, quantity, price);
	}
	finish(shipdates);
	finish(discounts);
	finish(quantities);
	finish(prices);
	finish(csv);
}

static void generate_embeddings(const char *dir, uint64_t seed)
{
	struct random r = { seed };
	FILE *f = create(dir, "embeddings.f32");

	for (uint32_t i = 0; i < EMBEDDINGS * DIMENSIONS; i++) {
		float value = ((float)between(&r, 0, 254) - 127.0f) / 128.0f;

		put(f, &value, sizeof value);
	}
	finish(f);
}

static void generate_weights(const char *dir, uint64_t seed)
{
	static const uint32_t special[] = { 0,		0x80000000, 1,		0x807fffff,
					    0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000,
					    0x7fc00000, 0xffc00001, 0x7f800001, 0x7f80ffff };
	struct random r = { seed };
	FILE *f = create(dir, "weights.f32");

	for (uint32_t i = 0; i < WEIGHTS; i++) {
		uint32_t bits = (uint32_t)(next(&r) >> 32);

		if (i % 8 == 0)
			bits = (bits & 0xffff0000) + 0x7fff + between(&r, 0, 2);
		if (i % 1024 == 0)
			bits = special[i / 1024 % (sizeof special / sizeof *special)];
		put(f, &bits, sizeof bits);
	}
	finish(f);
}

/* A whole decimal number above 0. */
static uint64_t number(const char *text)
{
	char *end;
	unsigned long long value;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (end == text || *end || errno || value == 0) {
		fprintf(stderr, "gen: not a number above 0: %s\n", text);
		exit(2);
	}
	return value;
}

int main(int argc, char **argv)
{
	if (argc < 2 || argc > 4) {
		fprintf(stderr, "usage: gen DIR [SEED [ROWS]]\n");
		return 2;
	}
	uint64_t seed = argc > 2 ? number(argv[2]) : 1;

	generate_lineitem(argv[1], seed, argc > 3 ? number(argv[3]) : ROWS_DEFAULT);
	generate_embeddings(argv[1], seed + 1);
	generate_weights(argv[1], seed + 2);
	return EXIT_SUCCESS;
}
