/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu/cuda/embedded.h - the images inside the binary (gpu/cuda/image/embed.S), and their entry points.
 */
#ifndef GPU_CUDA_EMBEDDED_H
#define GPU_CUDA_EMBEDDED_H

#include "gpu/cuda/image/image.h"
#include "gpu/cuda/state.h"

/* Name of the entry point of a launch; entry < HR_ENTRY_USER. */
const char *hr_cuda_entry_name(enum hr_entry entry);

/* The image that has the functions of a user operator undefined; each shape has its own. */
struct hr_cuda_input hr_cuda_user_image(const struct hr_operator *op);

/* Load cuda->image, find cuda->entry, and describe the entry points in the facts of the gpu. -ENOTSUP:
 * no code runs on this GPU; or an error of hr_cuda_image_load() or hr_cuda_entry_find(). cuda->image
 * has the loaded images also after an error. */
int hr_cuda_load_images(struct hr_cuda *cuda);

/* Describe the registers of each role (gpu/cuda/image/image_roles.cu) in the facts of the gpu. */
int hr_cuda_read_roles(struct hr_cuda *cuda);

#endif
