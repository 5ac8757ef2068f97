/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/fakes/ibverbs/control.h - faults of the fake libibverbs, which tests find by dlsym() as
 * `fake_ibverbs`, or set as FAKE_IBVERBS_FAULTS="name=value,...".
 *
 * The fake (libibverbs.so.1 of this folder) has reliable queue pairs between threads and processes:
 * a queue pair is a Unix socket in the folder FAKE_IBVERBS_DIR. Its devices are those of
 * FAKE_IBVERBS_DEVICES="NAME=IPV4[/MTU],..." ("fake0=127.0.0.1" without it). A process makes progress
 * whenever it polls a completion queue or waits for its events. What the hardware refuses, the fake
 * refuses: keys, regions, access rights, states, full queues, receives that are missing.
 */
#ifndef TESTS_FAKES_IBVERBS_CONTROL_H
#define TESTS_FAKES_IBVERBS_CONTROL_H

#include <stdint.h>

struct fake_ibverbs {
	/* Faults; 0: none. */
	unsigned cut;	/* after so many packets from now on, the queue pair loses its peer */
	unsigned lose;	/* so many completions of sends are lost */
	unsigned fail;	/* the next write ends with this status (enum ibv_wc_status) */
	unsigned deaf;	/* writes do not reach memory */
	unsigned blind; /* reads give zeros */
	unsigned no_immediate; /* immediates are lost: writes with one are plain writes */
	unsigned stall;	       /* no packet is sent */
	unsigned reg_error;    /* registrations fail with this errno */
	unsigned port_down;
	unsigned no_inline; /* the device has no inline data */
	unsigned twice;	    /* so many completions of sends come twice */
	unsigned mangle;    /* so many immediates have another kind, generation or sequence */
	unsigned fail_poll; /* so many polls for completions fail */
	/* The nth call from now on fails that opens a device, makes or changes an object, asks for an
	 * event or posts a request. */
	unsigned fail_call;

	/* Counters. */
	unsigned refused_keys; /* packets with a wrong key, or out of their region */
	unsigned late;	       /* packets of a queue pair that is not the peer */
	unsigned not_ready;
	unsigned requests;		       /* that were posted to send queues */
	unsigned contexts, pds, mrs, cqs, qps; /* that exist */
};

#endif
