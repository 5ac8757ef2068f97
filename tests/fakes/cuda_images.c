/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fakes/cuda_images.h"

const uint8_t hr_worker_image[1], hr_worker_objects_image[1];
const uint8_t hr_worker_objects_wide_image[1], hr_worker_tools_image[1];
const uint8_t hr_worker_roles_image[1];
const uint8_t hr_worker_user_image[1], hr_worker_user_image_end[1];
const uint8_t hr_worker_access_image[1], hr_worker_access_image_end[1];
