/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/harness/link_rig.h - two links of one process, over the fake libibverbs and TCP of this
 * machine, with a clock that the test moves.
 */
#ifndef TESTS_HARNESS_LINK_RIG_H
#define TESTS_HARNESS_LINK_RIG_H

#include "boot/remote/link.h"
#include "tests/fakes/ibverbs/control.h"

#define RIG_SLOTS 8u
#define RIG_KEPT 64u
#define RIG_TILE 100000u /* three segments and a part of one */
#define RIG_STRIDE 102400u
/* Pieces of dead_ns in which time passes; a link counts gaps up to an eighth of it. */
#define RIG_PIECES 16u

struct link_rig {
	struct hr_link *link[2]; /* by enum hr_link_side */
	struct hr_link_setup setup[2];
	uint8_t *memory[2];
	char address[32], folder[64];
	uint64_t now_ns;
	int first_free;				/* descriptor, while no link is open */
	struct hr_link_event last[2];		/* the last event of each side */
	struct hr_link_event kept[2][RIG_KEPT]; /* not taken by link_rig_until() */
	unsigned kept_count[2];
	struct hr_error error[2];
	char text[2][512];
};

/* Load the fake, with a folder of its own, and prepare two setups that fit; opens nothing. */
void link_rig_init(struct link_rig *rig);

/* A port of the loopback interface that no socket has now. */
unsigned link_rig_free_port(void);

/* Close both, assert that nothing of the device is left, and prepare two setups as at first. */
void link_rig_again(struct link_rig *rig);

/* Open one side, and assert that it opens. The receiver first: the sender calls its port. */
void link_rig_open(struct link_rig *rig, enum hr_link_side side);

/* One step of a side; the clock advances by 10 us. True: rig->last[side] is a new event. */
bool link_rig_step(struct link_rig *rig, enum hr_link_side side);

/* Step both sides until this side has this event, which may have come since the last call; events of
 * the side before it are dropped. Asserts that it comes. */
struct hr_link_event link_rig_until(struct link_rig *rig, enum hr_link_side side,
				    enum hr_link_event_kind kind);

/* Step both sides so many times; events are kept for link_rig_until(). */
void link_rig_idle(struct link_rig *rig, unsigned steps);

/* Let so much time pass for both sides, which are stepped all the time; events are kept. */
void link_rig_pass(struct link_rig *rig, uint64_t ns);

/* Open both, and step until both are up. */
void link_rig_up(struct link_rig *rig);

/* Fill a slot of the sender for the tile. */
void link_rig_fill(struct link_rig *rig, uint32_t slot, uint64_t tile, uint32_t bytes);

/* Fill a slot of the sender, and send it: as hr_link_send(). */
int link_rig_send(struct link_rig *rig, uint32_t slot, uint64_t tile, uint32_t bytes);

/* True when the bytes of a slot of the receiver are those of the tile. */
bool link_rig_holds(const struct link_rig *rig, uint32_t slot, uint64_t tile, uint32_t bytes);

void link_rig_close(struct link_rig *rig, enum hr_link_side side);

/* Close both, and assert that nothing of the device is left. */
void link_rig_fini(struct link_rig *rig);

/* Faults and counters of the fake. */
struct fake_ibverbs *link_rig_fake(void);

#endif
