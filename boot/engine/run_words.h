/*
 * boot/engine/run_words.h - the words that a pipeline on a GPU shares with clients of its tap and its
 * feed, before a run.
 */
#ifndef BOOT_ENGINE_RUN_WORDS_H
#define BOOT_ENGINE_RUN_WORDS_H

#include "boot/engine/engine.h"

/*
 * Pipeline i, which has no client now, is about to run: make new memory for the sets that clients of
 * earlier runs have had. Does nothing without these, and while another run goes on, because the GPU
 * gives memory back only when it executes no launch. The addresses of workers may change, and are
 * wired after this. -ENOMEM, -EMFILE, or as hr_places_attach_words(), in app->error.
 */
int hr_run_words_renew(struct hr_appliance *app, uint32_t i);

#endif
