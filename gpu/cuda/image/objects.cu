/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Worker code of launches that access objects, with the built-in operators: I/O workers and compute
 * blocks. Included by images.
 */
#include "nvme/queue/worker.h"

#include "cache/crc32c.c"
#include "cache/object.c"
#include "gpu/worker/checksum.c"
#include "gpu/cuda/image/operators.cu"
#include "gpu/worker/io/access.c"
#include "gpu/worker/io/io.c"
#include "gpu/worker/io/commands.c"
#include "gpu/worker/io/single.c"
#include "gpu/worker/io/peers.c"
#include "gpu/worker/io/peers_home.c"
#include "gpu/worker/io/peers_pages.c"
#include "gpu/worker/io/requests.c"
#include "gpu/worker/io/writeback.c"
