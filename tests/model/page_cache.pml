/* SPDX-License-Identifier: Apache-2.0 */
/*
 * page_cache.pml - the protocol of cache/page_cache.h for one row of the page table: compute workers
 * that read and write in place, and the owner of the row, which also moves the epochs.
 *
 * Steps that are one statement here are one access of the code: a look-up, a compare and swap, a
 * store. Checked in all interleavings:
 *   - a worker that has found a page reads its data in the frame until the worker is quiescent;
 *   - no write is lost: a page that is read from the ssd has the last version that was written;
 *   - each missing page is read once: no page is in two ways;
 *   - with -DWHOLE, a worker that writes all of a page may get a frame without a read: no other worker
 *     uses that frame, and none is written to the ssd, before that worker has filled it;
 *   - no wait is endless: spin reports every state in which no process can continue.
 * States and words have the names of cache/page_table.h and cache/page_cache.h.
 */
#ifndef WORKERS
#define WORKERS 2
#endif
#ifndef ACCESSES
#define ACCESSES 2
#endif
#ifndef WAYS
#define WAYS 1
#endif
#define PAGES (WAYS + 1)
#define OWNER WORKERS /* index of the owner's `seen` */

/* enum hr_page_state */
#define FREE 0
#define LEFT 1
#define READING 2
#define READY 4
#define DIRTY 5
#define WRITING 6
#define REDIRTY 7
#define OFFERED 8 /* HR_PAGE_OFFERED: READING and HR_PAGE_SHARED */
#ifdef WHOLE
#define IS_OFFERED(w) (state[w] == OFFERED)
#else
#define IS_OFFERED(w) false
#endif

byte state[WAYS], tag[WAYS]; /* tag: the page; of a LEFT way: as wait_for */
byte frame_page[WAYS]; /* PAGES: none */
bool stale[PAGES];     /* the ssd does not have the last version of the page */
bool reads[WAYS], writes[WAYS]; /* a command is with the controller */
bool has_last[WAYS];	/* the write command has read the last version */
/*
 * Epochs are relative to the current epoch, so that they do not multiply the states: `seen` and
 * `settled` are the distance of a word behind the current epoch; wait_for is NOW + the distance of
 * the epoch to pass before the current epoch.
 */
#define NOW 4
byte wait_for[WAYS]; /* for write-back: the epoch to pass before it reads the frame */
byte settled, seen[WORKERS + 1];
bool has_ended[WORKERS];
byte ended; /* compute workers that have ended */
chan ring = [2] of { byte, bool }; /* requests: a page; the flag HR_REQUEST_WHOLE */

#define HOLDS(w, p) (tag[w] == p && state[w] >= READY && !IS_OFFERED(w))
#define HAS(w, p) (tag[w] == p && state[w] >= READING)
#define LEAVES(w) ((state[w] == LEFT && !PASSED(tag[w])) || \
		   (STORED(w) && !writes[w] && !PASSED(wait_for[w])))
#define STORED(w) (state[w] == WRITING || state[w] == REDIRTY)
#if WAYS == 1
#define HELD(p) HOLDS(0, p)
#define PRESENT(p) HAS(0, p)
#define HAS_OFFERED(p) (HAS(0, p) && IS_OFFERED(0))
#define LEAVING LEAVES(0)
#define CROWDED(w) (kept < PAGES && !PRESENT(kept))
#define IDLE(w) ((state[0] < DIRTY || IS_OFFERED(0)) && !reads[0])
#else
#define HELD(p) (HOLDS(0, p) || HOLDS(1, p))
#define PRESENT(p) (HAS(0, p) || HAS(1, p))
#define HAS_OFFERED(p) ((HAS(0, p) && IS_OFFERED(0)) || (HAS(1, p) && IS_OFFERED(1)))
#define LEAVING (LEAVES(0) || LEAVES(1))
#define CROWDED(w) (state[1 - w] >= READING) /* no way is free or leaving */
#define IDLE(w) ((state[0] < DIRTY || IS_OFFERED(0)) && !reads[0] && \
		 (state[1] < DIRTY || IS_OFFERED(1)) && !reads[1])
#endif

/*
 * Store the current epoch as seen. The code loads the epoch first; when the epoch moves in between,
 * the worker had already seen the former epoch, and stores that epoch again.
 */
inline quiescent(worker)
{
	seen[worker] = 0
}

/* Move to the next epoch. */
inline advance()
{
	d_step {
		for (i : 0 .. WORKERS) { seen[i]++ }
		for (i : 0 .. WORKERS - 1) {
			if :: has_ended[i] -> seen[i] = 0 :: else fi
		}
		settled++;
		for (i : 0 .. WAYS - 1) {
			if :: state[i] == LEFT -> tag[i]-- :: else fi;
			if :: wait_for[i] > 0 -> wait_for[i]-- :: else fi
		}
		i = 0
	}
}

/* A look-up: one load of the set. */
inline find(p, way)
{
	d_step {
		if
		:: HOLDS(0, p) -> way = 0
#if WAYS == 2
		:: HOLDS(1, p) -> way = 1
#endif
		:: else -> way = WAYS
		fi
	}
}

/* Before a write: READY -> DIRTY, WRITING -> REDIRTY; fails when the owner was faster. */
inline mark(p, way, ok)
{
	d_step {
		if
		:: HOLDS(way, p) && state[way] == READY -> state[way] = DIRTY; ok = true
		:: HOLDS(way, p) && state[way] == WRITING -> state[way] = REDIRTY; ok = true
		:: HOLDS(way, p) && (state[way] == DIRTY || state[way] == REDIRTY) -> ok = true
		:: !HOLDS(way, p) -> ok = false
		fi
	}
}

/* Claim the frame of an OFFERED page. */
inline claim(p, way)
{
	d_step {
		if
		:: HAS(0, p) && IS_OFFERED(0) -> way = 0
#if WAYS == 2
		:: HAS(1, p) && IS_OFFERED(1) -> way = 1
#endif
		:: else -> way = WAYS
		fi;
		if
		:: way < WAYS -> state[way] = READING; frame_page[way] = PAGES
		:: else
		fi
	}
}

/* A worker that does not fill the page finds it OFFERED after its request was taken: it asks again. */
#define ASKS_AGAIN(p) (!PRESENT(p) || (HAS_OFFERED(p) && !whole))

proctype compute(byte me)
{
	byte n, p, way;
	bool ok, write, requested, whole;

	do
	:: n < ACCESSES ->
		select(p : 0 .. PAGES - 1);
		if
		:: write = true
		:: write = false
#ifdef WHOLE
		:: d_step { write = true; whole = true }
#endif
		fi;
again:
		requested = false;
		do
		:: find(p, way);
		   if
		   :: way < WAYS -> break
		   :: else
		   fi;
		   /* wait, also for room in the ring, and publish while no page is held */
		   do
		   :: atomic { !requested && nfull(ring) -> ring!p, whole; requested = true }
		   :: HELD(p) -> break
#ifdef WHOLE
		   :: whole && HAS_OFFERED(p) ->
			claim(p, way);
			if :: way < WAYS -> goto fill :: else fi
#endif
		   :: seen[me] > 0 -> quiescent(me)
		   :: ASKS_AGAIN(p) && empty(ring) && requested -> requested = false; break
		   od
		od;
		if
		:: write ->
			mark(p, way, ok);
			if :: !ok -> goto again :: else fi;
			/* the store to the frame, at any later time */
			d_step {
				assert(frame_page[way] == p);
				stale[p] = true;
				has_last[way] = false
			}
		:: else ->
			assert(frame_page[way] == p)
		fi;
#ifdef WHOLE
		goto end;
fill:
		/* the stores to the frame, and then that of the state */
		assert(state[way] == READING && tag[way] == p && frame_page[way] == PAGES && !reads[way]);
		d_step {
			frame_page[way] = p;
			stale[p] = true;
			has_last[way] = false;
			state[way] = DIRTY
		}
end:
#endif
		n++;
		d_step { way = 0; ok = false; write = false; requested = false; whole = false; p = 0 };
		/* some accesses keep their page longer */
		if :: quiescent(me) :: skip fi
	:: else -> break
	od;
	skip;
	d_step { has_ended[me] = true; seen[me] = 0; ended++ }
}

#define PASSED(e) ((e) + settled <= NOW)
#define LATER (NOW + 2 - seen[OWNER])
#define ALL_SEEN (seen[OWNER] == 0 && seen[0] == 0 && seen[WORKERS - 1] == 0)

#ifdef WHOLE
/* A frame for a page, without a read. */
inline offer(p, w)
{
	d_step {
		assert(!PRESENT(p));
		state[w] = OFFERED;
		tag[w] = p;
		frame_page[w] = PAGES
	}
}

/* A worker wants the data of an OFFERED page; compare and swap. */
inline fetch(p)
{
	d_step {
		i = 0;
		do
		:: i < WAYS && HAS(i, p) && IS_OFFERED(i) -> state[i] = READING; reads[i] = true; i++
		:: i < WAYS && !(HAS(i, p) && IS_OFFERED(i)) -> i++
		:: else -> break
		od;
		i = 0
	}
}
#endif

/* READING with a command posted. */
inline insert(p, w)
{
	d_step {
		assert(!PRESENT(p));
		state[w] = READING;
		tag[w] = p;
		reads[w] = true;
		frame_page[w] = PAGES /* from now on the controller may write the frame */
	}
}

/* READY -> LEFT, noting the epoch e + 2 of an owner that has seen e. */
inline leave(w)
{
	d_step {
		if
		:: state[w] == READY || IS_OFFERED(w) ->
			state[w] = LEFT;
			tag[w] = LATER
		:: else
		fi
	}
}

inline begin_write_back(w)
{
	d_step {
		if
		:: state[w] == DIRTY -> state[w] = WRITING; wait_for[w] = LATER
		:: else
		fi
	}
}

/* The controller reads the frame. */
inline post_write(w)
{
	d_step { writes[w] = true; wait_for[w] = 0; has_last[w] = true }
}

inline complete_write(w)
{
	d_step {
		writes[w] = false;
		stale[tag[w]] = stale[tag[w]] && !has_last[w];
		has_last[w] = false;
		if
		:: state[w] == WRITING -> state[w] = READY
		:: state[w] == REDIRTY -> state[w] = DIRTY
		fi
	}
}

inline complete_read(w)
{
	d_step {
		assert(!stale[tag[w]]); /* no write is lost */
		reads[w] = false;
		frame_page[w] = tag[w];
		state[w] = READY
	}
}

/* Epochs that move only while a way waits for them let spin find every wait without an end; epochs
 * that move at any time (-DFREE_EPOCHS) let an owner lag behind. */
#ifdef FREE_EPOCHS
#define MOVES (ended < WORKERS || LEAVING)
#else
#define MOVES LEAVING
#endif

#ifdef WHOLE
#define GIVE(p, w) if :: kept_whole -> offer(p, w) :: else -> insert(p, w) fi
#else
#define GIVE(p, w) insert(p, w)
#endif

/* Actions of the owner on a way. */
#define OWN(w) \
	:: kept < PAGES && !PRESENT(kept) && state[w] == FREE -> GIVE(kept, w); kept = PAGES \
	:: (state[w] == READY || IS_OFFERED(w)) && CROWDED(w) -> leave(w) \
	:: state[w] == LEFT && PASSED(tag[w]) -> d_step { state[w] = FREE; tag[w] = 0 } \
	:: reads[w] -> complete_read(w) \
	:: state[w] == DIRTY -> begin_write_back(w) \
	:: STORED(w) && !writes[w] && PASSED(wait_for[w]) -> post_write(w) \
	:: writes[w] -> complete_write(w)

proctype owner()
{
	byte kept = PAGES, p, i;
	bool kept_whole, whole, storing; /* storing: the epoch has moved, `settled` has not */

	do
	:: kept == PAGES && nempty(ring) ->
		ring?p, whole;
		if
#ifdef WHOLE
		:: HAS_OFFERED(p) && !whole -> fetch(p)
		:: PRESENT(p) && !(HAS_OFFERED(p) && !whole)
#else
		:: PRESENT(p)
#endif
		:: !PRESENT(p) -> kept = p; kept_whole = whole
		fi
	:: kept < PAGES && PRESENT(kept) -> kept = PAGES
	OWN(0)
#if WAYS == 2
	OWN(1)
#endif
	:: MOVES && seen[OWNER] > 0 -> quiescent(OWNER)
	/* any I/O worker; it stores `settled` before it publishes the new epoch */
	:: MOVES && ALL_SEEN && !storing -> advance(); storing = true
	:: storing -> d_step { settled = 1; storing = false }
	:: ended == WORKERS && empty(ring) && kept == PAGES && !LEAVING && IDLE(0) -> break
	od;
	/* all written data are durable */
	for (p : 0 .. PAGES - 1) {
		assert(!stale[p])
	}
}

init {
	byte i;

	atomic {
		for (i : 0 .. WAYS - 1) { frame_page[i] = PAGES }
		for (i : 0 .. WORKERS - 1) { run compute(i) }
		run owner()
	}
}
