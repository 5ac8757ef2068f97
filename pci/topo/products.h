/*
 * pci/topo/products.h - NVIDIA's GPUs by device number: product line and architecture.
 *
 * The numbers are those of the PCI ID list (2026-05), from Kepler on. GeForce and professional
 * cards of one chip have interleaved numbers, so the ranges are exact: a number between two ranges
 * is unknown, and the caller can fall back to the card's name.
 */
#ifndef PCI_TOPO_PRODUCTS_H
#define PCI_TOPO_PRODUCTS_H

#include <stdint.h>

#include "pci/topo/model.h"

enum hr_product { HR_PRODUCT_UNKNOWN, HR_PRODUCT_CONSUMER, HR_PRODUCT_PROFESSIONAL };

/* Product line of the GPU with this device number; HR_PRODUCT_UNKNOWN: not in the ranges. */
enum hr_product hr_product_by_id(uint32_t device);

/*
 * Product line by the name of an NVIDIA GPU, whose product is in brackets after the chip;
 * HR_PRODUCT_UNKNOWN: the name does not tell it.
 */
enum hr_product hr_product_by_name(const char *name);

enum hr_age { HR_AGE_UNKNOWN, HR_AGE_BEFORE_AMPERE, HR_AGE_AMPERE };

/* Architecture of the GPU, Ampere or later, by its device number (0: unknown), else by its name. */
enum hr_age hr_product_age(uint32_t device, const char *name);

/*
 * NVIDIA's product line by the card's device number, else by its name; HR_PRODUCT_UNKNOWN for other
 * vendors and for cards that neither tells.
 */
enum hr_product hr_product_of(const struct hr_fn *gpu);

#endif
