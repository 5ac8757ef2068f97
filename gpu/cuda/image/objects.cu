/*
 * Worker code of launches that access objects, with the built-in operators: I/O workers and compute
 * blocks. Included by images.
 */
#include "nvme/worker.h"

#include "cache/crc32c.c"
#include "cache/object.c"
#include "gpu/worker/checksum.c"
#include "gpu/cuda/operators.cu"
#include "gpu/worker/access.c"
#include "gpu/worker/io.c"
#include "gpu/worker/io_commands.c"
#include "gpu/worker/io_one.c"
#include "gpu/worker/io_peers.c"
#include "gpu/worker/io_peers_home.c"
#include "gpu/worker/io_peers_pages.c"
#include "gpu/worker/io_requests.c"
#include "gpu/worker/io_writeback.c"
