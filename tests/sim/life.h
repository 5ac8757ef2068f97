/*
 * tests/sim/life.h - the life of one appliance, by its plan, and what must hold in it.
 */
#ifndef TESTS_SIM_LIFE_H
#define TESTS_SIM_LIFE_H

/* The director of a world (tests/sim/schedule.h); argument: a struct sim_plan. Sets sim_result. */
int sim_live(void *argument);

#endif
