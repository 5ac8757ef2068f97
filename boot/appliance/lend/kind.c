/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/appliance/lend/kind.h"

#include "gpu/tap/protocol.h"

const struct hr_lend_kind hr_lend_tap = {
	.name = "tap",
	.client = "consumer",
	.hello = HR_TAP_HELLO,
	.welcome = HR_TAP_WELCOME,
	.version = HR_TAP_VERSION,
};
const struct hr_lend_kind hr_lend_feed = {
	.name = "feed",
	.client = "producer",
	.hello = HR_FEED_HELLO,
	.welcome = HR_FEED_WELCOME,
	.version = HR_FEED_VERSION,
};
