/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/fakes/cuda_images.h - bytes in place of the images of gpu/cuda/embedded.c, which nvcc compiles:
 * the driver in C does not read them.
 */
#ifndef TESTS_FAKES_CUDA_IMAGES_H
#define TESTS_FAKES_CUDA_IMAGES_H

#include <stdint.h>

extern const uint8_t hr_worker_image[1], hr_worker_objects_image[1];
extern const uint8_t hr_worker_objects_wide_image[1], hr_worker_tools_image[1];
extern const uint8_t hr_worker_roles_image[1];
extern const uint8_t hr_worker_user_image[1], hr_worker_user_image_end[1];
extern const uint8_t hr_worker_access_image[1], hr_worker_access_image_end[1];

#endif
