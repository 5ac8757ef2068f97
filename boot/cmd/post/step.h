/*
 * boot/cmd/post/step.h - result and finding of a step of the power-on self-test.
 *
 * A step returns 0: passed; HR_POST_SKIP: does not apply, detail gives the reason; -EINTR: a signal
 * requested a stop, and the step has no result; > 0 NVMe status or -errno: failed, and *e has the
 * cause. It writes its finding to detail, which has HR_POST_DETAIL bytes.
 */
#ifndef BOOT_CMD_POST_STEP_H
#define BOOT_CMD_POST_STEP_H

#define HR_POST_SKIP 0x10000
#define HR_POST_DETAIL 640u

#endif
