/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peers.pml - the protocol of cache/peers.h for the pages of one set: gpus with a cache each, their
 * compute workers and I/O workers, and the home of the set with its directory.
 *
 * A step that is atomic here is one access of the code to a word that others use, or the work of one
 * I/O worker on words that it alone uses. Checked in all interleavings:
 *   - a worker reads the last version of a page, in its own gpu's frame or in that of another gpu; when a
 *     write is done, no other gpu has a copy that a worker uses or can find (no lost invalidation, no
 *     stale read);
 *   - one gpu at most holds a page EXCLUSIVE;
 *   - a frame is not used again while another gpu copies from it, or while a worker uses it;
 *   - a page is read from the ssd by one gpu at a time, and never while a gpu holds it;
 *   - no message from the home meets a full ring;
 *   - no wait is endless: each run ends, and all pages are written then. A search for cycles (-DNP of
 *     the verifier) finds no run that goes on without accesses.
 *
 * An epoch is a set of workers here, of all gpus, those that have to be quiescent before it has passed.
 * page_cache.pml checks that the epochs of the code are such sets. States, messages, and words of a way
 * have the names of cache/page_table.h and cache/peers.h without their prefixes.
 */
#ifndef GPUS
#define GPUS 2
#endif
#ifndef WAYS
#define WAYS 1
#endif
#ifndef PAGES
#define PAGES 1
#endif
#ifndef WORKERS
#define WORKERS GPUS /* worker k is of gpu k % GPUS */
#endif
#ifndef ACCESSES
#define ACCESSES 1
#endif
#ifndef WRITERS
#define WRITERS 255 /* bit k: worker k may write */
#endif
#ifndef READERS
#define READERS 255 /* bit k: worker k may read */
#endif
#ifndef EVICTIONS
#define EVICTIONS 0 /* of each gpu, besides those that make room */
#endif
#ifndef COMMANDS
#define COMMANDS 2 /* of each gpu; a GET leaves one for write-back */
#endif
#ifndef ROOM
/* messages that the home sends to a gpu for one that it takes, at most: one for each entry that the gpu has
 * of the page, and one more, because CLEAN may follow a GRANT */
#define ROOM (WAYS + 1)
#endif
#ifndef RING
#define RING ROOM
#endif
#define FRAMES (GPUS * WAYS) /* frame and entry w + gpu * WAYS */
#define NO_FRAME FRAMES
#define GPU(f) ((f) / WAYS)

/* enum hr_page_state, and HR_PAGE_SHARED beside it. */
#define FREE 0
#define LEFT 1
#define READING 2
#define READY 4
#define DIRTY 5
#define WRITING 6
#define REDIRTY 7
byte state[FRAMES], tag[FRAMES];
bool shared[FRAMES]; /* of a LEFT way: the home has an entry of it */

/* enum hr_peer_request, enum hr_peer_answer: requests of the owner to the home, and answers that the owner has to send. */
#define NOTHING 0
#define REQUEST_PAGE 1
#define REQUEST_WRITE 2
#define REQUEST_DROP 3
#define ANSWER_FILLED 1
#define ANSWER_CLEAN 2
#define ANSWER_CLEANED 3
#define ANSWER_INVALIDATE 4
byte way_request[FRAMES], way_answer[FRAMES];
bool writes[FRAMES]; /* the GET had the flag */
byte epoch[FRAMES];	/* the workers that the way waits for */

/* Transfers of the owner. */
#define IDLE 0
#define READS 1	 /* a read command is with the controller */
#define COPIES 2 /* from the frame source[] */
#define WRITES 3 /* a write command is with the controller */
byte doing[FRAMES], source[FRAMES];
byte commands[GPUS]; /* in use */

/* Data: true when it is the last version. written[]: what a write command has read. */
bool fresh[FRAMES], written[FRAMES], stored[PAGES];

/* Workers: the frame in use. What the access is for, and the request in the ring are 1 + 2 * page + write;
 * 0: none. */
byte uses[WORKERS], seeks[WORKERS], request[WORKERS];
byte ended[GPUS]; /* workers */

/* enum hr_peer_state of the directory. */
#define NONE 0
#define WANTS 1
#define FILLING 2
#define COPYING 3
#define SHARED 4
#define EXCLUSIVE 5
#define CLEANING 6
#define INVALIDATING 7
byte entry[FRAMES], page_of[FRAMES], from[FRAMES];
bool write_flag[FRAMES], drop_flag[FRAMES];
byte order[FRAMES]; /* of WANTS and of write_flag: 1, 2, .. by arrival; 0: asks for nothing */

mtype = { GET, UPGRADE, FILLED, CLEANED, DROP, FILL, COPY, GRANT, CLEAN, INVALIDATE, DROPPED };
chan to_home[GPUS] = [RING] of { mtype, byte, bool };	/* frame, flag */
chan from_home[GPUS] = [RING] of { mtype, byte, byte }; /* frame, source */

byte evictions[GPUS], done;

/* Rules of the protocol. A definition removes one; spin must find an error then. */
#ifdef WRITERS_IGNORE_SHARED
#define SHUT(f) false
#else
#define SHUT(f) shared[f]
#endif
#ifdef NO_REPEAT
#define REPEATS !asked
#else
#define REPEATS true
#endif
#ifdef NO_RESERVE
#define GETS COMMANDS
#else
#define GETS (COMMANDS - 1)
#endif
#ifdef CLEANED_UNWRITTEN
#define CLEAN_STATE(f) (state[f] >= READY)
#else
#define CLEAN_STATE(f) (state[f] == READY)
#endif
#ifdef DROP_EARLY
#define DROP_TIME(f) true
#else
#define DROP_TIME(f) PASSED(f)
#endif
#ifdef WRITE_EARLY
#define WRITE_TIME(f) true
#else
#define WRITE_TIME(f) PASSED(f)
#endif
#ifdef REUSE_EARLY
#define REUSE(f) free(f)
#else
#define REUSE(f) skip
#endif
#ifdef DROP_DURING_COPY
#define DROP_WAITS false
#else
#define DROP_WAITS true
#endif
#ifdef FILL_TWICE
#define FILL_WAITS false
#else
#define FILL_WAITS true
#endif
#ifdef WRITE_DURING_TRANSFER
#define TRANSFER_WAITS false
#else
#define TRANSFER_WAITS true
#endif
#ifdef NO_ROOM
#define HAS_ROOM(g) true
#else
#define HAS_ROOM(g) (len(from_home[g]) + ROOM <= RING)
#endif
#ifdef EPOCH_OF_ONE_GPU
#define WAITS_FOR(k) HIS(k)
#else
#define WAITS_FOR(k) true
#endif
#ifdef NO_GRACE
#define GRACE(f) true
#else
#define GRACE(f) PASSED(f)
#endif

#define HOLDS(f, p) (tag[f] == p && state[f] >= READY)
#define HAS(f, p) (tag[f] == p && state[f] >= READING)
#define PASSED(f) (epoch[f] == 0)
#define FIRST(g) ((g) * WAYS)
#define LAST(g) ((g) * WAYS + WAYS - 1)
#if WAYS == 1
#define ANY(condition, g) condition(FIRST(g))
#define EACH(condition, g) condition(FIRST(g))
#define ANY_OF(condition, g, p) condition(FIRST(g), p)
#else
#define ANY(condition, g) (condition(FIRST(g)) || condition(LAST(g)))
#define EACH(condition, g) (condition(FIRST(g)) && condition(LAST(g)))
#define ANY_OF(condition, g, p) (condition(FIRST(g), p) || condition(LAST(g), p))
#endif
#if GPUS == 3
#define HELD(p) (ANY_OF(HOLDS, 0, p) || ANY_OF(HOLDS, 1, p) || ANY_OF(HOLDS, 2, p))
#else
#define HELD(p) (ANY_OF(HOLDS, 0, p) || ANY_OF(HOLDS, 1, p))
#endif
#define BEFORE(a, b) (write_flag[a] && order[a] < order[b])
#define PAGE(r) (((r) - 1) / 2)
#define WRITE(r) (((r) - 1) & 1)

/* ---- Compute workers ---- */

#define MINE (me % GPUS)
/* The request r can use the way. */
#define SERVES(f, r) (HOLDS(f, PAGE(r)) && !(WRITE(r) && SHUT(f)))
#define IN_SHARED(f, p) (HOLDS(f, p) && shared[f])

inline quiescent()
{
	d_step {
		uses[me] = NO_FRAME;
		for (f : 0 .. FRAMES - 1) { epoch[f] = epoch[f] & ~(1 << me) }
		f = 0
	}
}

/* A store to the frame in use. No other gpu may have a copy, nor a worker that uses one. */
inline store()
{
	d_step {
		assert(tag[uses[me]] == p && state[uses[me]] >= READY);
		for (f : 0 .. FRAMES - 1) {
			assert(GPU(f) == MINE || !HOLDS(f, p));
			if
			:: f != uses[me] && tag[f] == p -> fresh[f] = false; written[f] = false
			:: else
			fi
		}
		for (f : 0 .. WORKERS - 1) {
			assert(f % GPUS == MINE || uses[f] == NO_FRAME || uses[f] == uses[me] ||
			       tag[uses[f]] != p)
		}
		fresh[uses[me]] = true;
		written[uses[me]] = false;
		stored[p] = false;
		f = 0
	}
}

proctype compute(byte me)
{
	byte n, p, f;
	bool asked, ok;

	do
	:: n < ACCESSES ->
#ifdef CROSS
		/* each writes a page of its own, then reads that of the other */
		p = (me + n) % PAGES;
		seeks[me] = 1 + 2 * p + (n == 0);
#else
		select(p : 0 .. PAGES - 1);
		if
		:: WRITERS & (1 << me) -> seeks[me] = 2 + 2 * p
		:: READERS & (1 << me) -> seeks[me] = 1 + 2 * p
		fi;
#endif
again:
		asked = false;
		/* A wait is a quiescent state. A reader may find the page in the frame of another gpu. */
		do
		:: ANY_OF(SERVES, MINE, seeks[me]) -> break
		:: d_step { !WRITE(seeks[me]) && !ANY_OF(HOLDS, MINE, p) && HELD(p) ->
			for (f : 0 .. FRAMES - 1) {
				if :: HOLDS(f, p) -> uses[me] = f :: else fi
			}
			f = 0 };
			goto used
		:: atomic { request[me] == 0 &&
			(!ANY_OF(HAS, MINE, p) ||
			 (WRITE(seeks[me]) && ANY_OF(IN_SHARED, MINE, p) && REPEATS)) ->
			request[me] = seeks[me];
			asked = true }
		od;
		skip;
		/* a look-up; before a write also a compare and swap */
		d_step {
			for (f : FIRST(MINE) .. LAST(MINE)) {
				if :: HOLDS(f, p) -> uses[me] = f :: else fi
			}
			f = 0
		}
used:
		if
		:: uses[me] == NO_FRAME -> goto again
		:: uses[me] < NO_FRAME && !WRITE(seeks[me]) ->
			assert(tag[uses[me]] == p && fresh[uses[me]])
		:: uses[me] < NO_FRAME && WRITE(seeks[me]) ->
			d_step {
				f = uses[me];
				ok = HOLDS(f, p) && !SHUT(f);
				if
				:: ok && (state[f] == READY || state[f] == WRITING) -> state[f]++
				:: else
				fi;
				f = 0
			}
			if
			:: !ok -> quiescent(); goto again
			:: ok -> store()
			fi
		fi;
progress:
		d_step { n++; p = 0; asked = false; ok = false; seeks[me] = 0 };
		quiescent()
	:: else -> break
	od;
	ended[MINE]++
}

/* ---- I/O workers ---- */

#define CAN_TELL nfull(to_home[g])
#define HIS(k) (k % GPUS == g)
#define CALM(f) (way_request[f] == NOTHING && way_answer[f] == NOTHING)

/* Wait for the workers that use a page; with a look-up that would succeed now, too, when they are to be
 * served first. */
inline begin_epoch(at, serve)
{
	epoch[at] = 0;
	for (k : 0 .. WORKERS - 1) {
		if
		:: WAITS_FOR(k) && (uses[k] < NO_FRAME ||
				    (serve && HIS(k) && seeks[k] > 0 && SERVES(at, seeks[k]))) ->
			epoch[at] = epoch[at] | (1 << k)
		:: else
		fi
	}
	k = 0
}

inline leave(at)
{
	state[at] = LEFT;
	shared[at] = true;
	begin_epoch(at, false)
}

inline free(at)
{
	state[at] = FREE;
	tag[at] = 0;
	shared[at] = false;
	fresh[at] = false
}

inline end_transfer(at)
{
	assert(state[at] == READING);
	doing[at] = IDLE;
	commands[g]--;
	state[at] = READY;
	shared[at] = true;
	way_request[at] = NOTHING;
	if
	:: writes[at] -> way_request[at] = REQUEST_WRITE
	:: else
	fi;
	writes[at] = false;
	way_answer[at] = ANSWER_FILLED
}

inline end_write(at)
{
	doing[at] = IDLE;
	commands[g]--;
	stored[tag[at]] = stored[tag[at]] || written[at];
	written[at] = false;
	if
	:: state[at] == WRITING -> state[at] = READY
	:: else -> state[at] = DIRTY
	fi
}

/* A message from the home. */
inline hear()
{
	from_home[g]?type, f, s;
	if
	:: type == FILL ->
		assert(state[f] == READING && way_request[f] == REQUEST_PAGE);
		for (k : 0 .. FRAMES - 1) {
			assert(k == f || tag[k] != tag[f] || (doing[k] != READS && !HOLDS(k, tag[f])))
		}
		k = 0;
		doing[f] = READS
	:: type == COPY ->
		assert(state[f] == READING && way_request[f] == REQUEST_PAGE);
		doing[f] = COPIES;
		source[f] = s
	:: type == GRANT && state[f] == READY ->
		assert(way_request[f] == REQUEST_WRITE);
		shared[f] = false;
		way_request[f] = NOTHING;
		for (k : 0 .. FRAMES - 1) { assert(k == f || !HOLDS(k, tag[f])) }
		k = 0
	:: type == CLEAN && state[f] >= READY ->
		assert(CALM(f) && !shared[f]);
		way_answer[f] = ANSWER_CLEAN;
		begin_epoch(f, true)
	:: type == INVALIDATE && state[f] >= READY ->
		assert(state[f] == READY && shared[f] && way_answer[f] == NOTHING);
		way_request[f] = NOTHING;
		way_answer[f] = ANSWER_INVALIDATE;
		begin_epoch(f, true)
	:: type == DROPPED ->
		assert(state[f] == LEFT && way_request[f] == REQUEST_DROP);
		way_request[f] = NOTHING;
		free(f)
	:: else -> assert(state[f] == LEFT) /* a DROP is under way, or follows */
	fi;
	type = 0; f = 0; s = 0
}

/* Put a missing page into a free way. */
inline get(w)
{
	f = FIRST(g);
	do
	:: f <= LAST(g) && state[f] != FREE -> f++
	:: else -> break
	od;
	for (k : 0 .. FRAMES - 1) { assert(doing[k] != COPIES || source[k] != f) }
	for (k : 0 .. WORKERS - 1) { assert(uses[k] != f) }
	k = 0;
	state[f] = READING;
	tag[f] = PAGE(request[w]);
	commands[g]++;
	way_request[f] = REQUEST_PAGE;
	writes[f] = WRITE(request[w]);
	to_home[g]!GET, f, writes[f];
	request[w] = 0;
	f = 0
}

/* Ask for permission to write to the page, which is SHARED. */
inline upgrade(w)
{
	f = FIRST(g);
	do
	:: !HAS(f, PAGE(request[w])) -> f++
	:: else -> break
	od;
	way_request[f] = REQUEST_WRITE;
	to_home[g]!UPGRADE, f, true;
	f = 0
}

#define EMPTY(f) (state[f] == FREE)
#define STAYS(f) (state[f] > LEFT)
#define ANSWERS(f, r) \
	(tag[f] == PAGE(r) && (state[f] == READING || SERVES(f, r)))
#define UPGRADABLE(f, r) \
	(HOLDS(f, PAGE(r)) && state[f] == READY && WRITE(r) && shared[f] && CALM(f))
#define MISSES(w) (request[w] > 0 && !ANY_OF(HAS, g, PAGE(request[w])))
#define STARVED(w) (MISSES(w) && EACH(STAYS, g))
#if WORKERS > GPUS
#define OTHER (g + GPUS * (g + GPUS < WORKERS)) /* the second worker of the gpu, if any */
#define ANY_STARVED (STARVED(g) || STARVED(OTHER))
#define HIS_WORKERS (1 + (g + GPUS < WORKERS))
#else
#define ANY_STARVED STARVED(g)
#define HIS_WORKERS 1
#endif
#define HAS_ENDED (ended[g] == HIS_WORKERS)

/* What the I/O worker does with a request. */
#define REQUEST(w) \
	:: atomic { request[w] > 0 && ANY_OF(ANSWERS, g, request[w]) -> request[w] = 0 } \
	:: atomic { request[w] > 0 && ANY_OF(UPGRADABLE, g, request[w]) && CAN_TELL -> upgrade(w) } \
	:: atomic { MISSES(w) && ANY(EMPTY, g) && commands[g] < GETS && CAN_TELL -> get(w) }

#define STORES(f) (state[f] == WRITING || state[f] == REDIRTY)

/* What the I/O worker does with frame f. */
#define OWN(f) \
	/* a victim: for a request that has no way, or at any time */ \
	:: atomic { state[f] == READY && CALM(f) && ANY_STARVED -> leave(f) } \
	:: atomic { state[f] == READY && CALM(f) && evictions[g] < EVICTIONS && !HAS_ENDED -> \
		evictions[g]++; leave(f) } \
	:: atomic { state[f] == LEFT && way_request[f] == NOTHING && DROP_TIME(f) && CAN_TELL -> \
		way_request[f] = REQUEST_DROP; to_home[g]!DROP, f, false; REUSE(f) } \
	/* transfers */ \
	:: atomic { doing[f] == READS -> \
		assert(stored[tag[f]]); fresh[f] = true; end_transfer(f) } \
	:: atomic { doing[f] == COPIES -> \
		assert(fresh[source[f]] && tag[source[f]] == tag[f]); \
		source[f] = 0; fresh[f] = true; end_transfer(f) } \
	:: atomic { state[f] == DIRTY && (shared[f] || ANY_STARVED || HAS_ENDED) && \
		    way_answer[f] != ANSWER_CLEAN && commands[g] < COMMANDS -> \
		state[f] = WRITING; commands[g]++; begin_epoch(f, false) } \
	:: atomic { STORES(f) && doing[f] == IDLE && way_answer[f] != ANSWER_CLEAN && WRITE_TIME(f) -> \
		epoch[f] = 0; doing[f] = WRITES; written[f] = fresh[f] } \
	:: atomic { doing[f] == WRITES -> end_write(f) } \
	/* answers */ \
	:: atomic { way_answer[f] == ANSWER_FILLED && CAN_TELL -> \
		way_answer[f] = NOTHING; to_home[g]!FILLED, f, false } \
	:: atomic { way_answer[f] == ANSWER_CLEAN && GRACE(f) -> \
		epoch[f] = 0; shared[f] = true; way_answer[f] = ANSWER_CLEANED } \
	:: atomic { way_answer[f] == ANSWER_CLEANED && CLEAN_STATE(f) && CAN_TELL -> \
		way_answer[f] = NOTHING; to_home[g]!CLEANED, f, false } \
	:: atomic { way_answer[f] == ANSWER_INVALIDATE && GRACE(f) -> way_answer[f] = NOTHING; leave(f) }

/* The frame needs no answer and no write any more. */
#define SETTLED(f) \
	(way_answer[f] == NOTHING && (state[f] == FREE || state[f] == READY || way_request[f] == REQUEST_DROP))

proctype gpu(byte g)
{
	mtype type;
	byte f, s, k;
	bool is_done;

	do
	:: atomic { nempty(from_home[g]) -> hear() }
	REQUEST(g)
#if WORKERS > GPUS
	REQUEST(OTHER)
#endif
	OWN(FIRST(g))
#if WAYS == 2
	OWN(LAST(g))
#endif
	/* The end: all pages are written. It answers the others until all are so far. */
	:: atomic { HAS_ENDED && !is_done && EACH(SETTLED, g) -> is_done = true; done++ }
	:: done == GPUS -> break
	od
}

/* ---- The home ---- */

inline say(message, at, copied)
{
	assert(nfull(from_home[GPU(at)]));
	from_home[GPU(at)]!message, at, copied
}

/* The entry asks for something, after those that asked before. */
inline enqueue(at)
{
	order[at] = 1;
	for (k : 0 .. FRAMES - 1) {
		if :: k != at && order[k] >= order[at] -> order[at] = order[k] + 1 :: else fi
	}
	k = 0
}

inline dequeue(at)
{
	for (k : 0 .. FRAMES - 1) {
		if :: order[at] > 0 && order[k] > order[at] -> order[k]-- :: else fi
	}
	k = 0;
	order[at] = 0;
	write_flag[at] = false
}

/* Note a message in the directory. */
inline note()
{
	if
	:: type == GET ->
		assert(entry[f] == NONE);
		entry[f] = WANTS;
		page_of[f] = tag[f]; /* the page is in the message */
		write_flag[f] = flag;
		enqueue(f)
	:: type == UPGRADE ->
		if
		:: entry[f] == SHARED && !write_flag[f] -> write_flag[f] = true; enqueue(f)
		:: else -> assert(entry[f] == INVALIDATING)
		fi
	:: type == FILLED ->
		assert(entry[f] == FILLING || entry[f] == COPYING);
		entry[f] = SHARED;
		from[f] = 0
	:: type == CLEANED ->
		assert(entry[f] == CLEANING);
		entry[f] = SHARED
	:: type == DROP && entry[f] == SHARED ->
		assert(!write_flag[f] && !drop_flag[f]);
		drop_flag[f] = true
	:: type == DROP && entry[f] != SHARED -> /* it is the answer, too */
		assert(entry[f] > SHARED);
		entry[f] = NONE;
		say(DROPPED, f, 0)
	fi;
	p = page_of[f];
	if
	:: entry[f] == NONE -> page_of[f] = 0
	:: else
	fi
}

/* Let go the entries that have asked for it. */
inline serve_drops()
{
	for (f : 0 .. FRAMES - 1) {
		if
		:: entry[f] == SHARED && drop_flag[f] ->
			for (k : 0 .. FRAMES - 1) {
				if
				:: entry[k] == COPYING && from[k] == f && DROP_WAITS -> waits = true
				:: else
				fi
			}
			if
			:: waits -> waits = false
			:: else ->
				entry[f] = NONE;
				page_of[f] = 0;
				drop_flag[f] = false;
				say(DROPPED, f, 0)
			fi
		:: else
		fi
	}
	k = 0
}

/* A WANTS: the page from another gpu, or from the ssd. */
inline serve_wants(at)
{
	s = NO_FRAME;
	for (k : 0 .. FRAMES - 1) {
		if
		:: k == at || entry[k] == NONE || page_of[k] != p
		:: else ->
			if :: BEFORE(k, at) -> waits = true :: else fi;
			if
			:: entry[k] == EXCLUSIVE && !waits ->
				entry[k] = CLEANING;
				say(CLEAN, k, 0);
				waits = true
			:: entry[k] == FILLING && FILL_WAITS -> waits = true
			:: entry[k] == CLEANING || entry[k] == INVALIDATING -> waits = true
			:: entry[k] == COPYING && s == NO_FRAME -> s = NO_FRAME + 1
			:: entry[k] == SHARED && !drop_flag[k] -> s = k
			:: else
			fi
		fi
	}
	k = 0;
	if
	:: waits || s > NO_FRAME
	:: !waits && s == NO_FRAME -> entry[at] = FILLING; say(FILL, at, 0)
	:: !waits && s < NO_FRAME -> entry[at] = COPYING; from[at] = s; say(COPY, at, s)
	fi;
	if
	:: entry[at] != WANTS && !write_flag[at] -> dequeue(at)
	:: else
	fi;
	waits = false;
	s = 0
}

/* A SHARED entry that is to be written: no other one may stay. Transfers to others end first. */
inline serve_upgrade(at)
{
	s = 0;
	for (k : 0 .. FRAMES - 1) {
		if
		:: k == at || entry[k] == NONE || page_of[k] != p
		:: else ->
			if
			:: BEFORE(k, at) -> waits = true
			:: (entry[k] == FILLING || entry[k] == COPYING) && TRANSFER_WAITS ->
				waits = true
			:: entry[k] == INVALIDATING -> waits = true
			:: entry[k] == SHARED -> s++
			:: else
			fi
		fi
	}
	if
	:: waits
	:: !waits && s == 0 -> entry[at] = EXCLUSIVE; dequeue(at); say(GRANT, at, 0)
	:: !waits && s > 0 ->
		for (s : 0 .. FRAMES - 1) {
			if
			:: s != at && entry[s] == SHARED && page_of[s] == p ->
				dequeue(s);
				entry[s] = INVALIDATING;
				say(INVALIDATE, s, 0)
			:: else
			fi
		}
	fi;
	k = 0;
	waits = false;
	s = 0
}

/* After each message: do what the rules allow, in the order of arrival. */
inline serve()
{
	serve_drops();
	turn = 1;
	do
	:: turn <= FRAMES ->
		f = 0;
		do
		:: f < FRAMES && !(order[f] == turn && page_of[f] == p) -> f++
		:: else -> break
		od;
		if
		:: f == FRAMES
		:: f < FRAMES && entry[f] == WANTS -> serve_wants(f)
		:: f < FRAMES && entry[f] == SHARED -> serve_upgrade(f)
		:: else
		fi;
		if
		:: f < FRAMES && order[f] == 0 /* the next one has its turn now */
		:: else -> turn++
		fi
	:: else -> break
	od
}

#if GPUS == 3
#define ROOM_FOR_ALL (HAS_ROOM(0) && HAS_ROOM(1) && HAS_ROOM(2))
#else
#define ROOM_FOR_ALL (HAS_ROOM(0) && HAS_ROOM(1))
#endif
#define HEAR(g) \
	:: atomic { nempty(to_home[g]) && ROOM_FOR_ALL -> d_step { to_home[g]?type, f, flag; note(); \
		serve(); type = 0; p = 0; f = 0; s = 0; k = 0; turn = 0; flag = false } }

proctype home()
{
	mtype type;
	byte p, f, s, k, turn;
	bool flag, waits;

	do
	HEAR(0)
	HEAR(1)
#if GPUS == 3
	HEAR(2)
#endif
	:: done == GPUS -> break
	od;
	for (p : 0 .. PAGES - 1) {
		assert(stored[p])
	}
}

init {
	byte k;

	atomic {
		for (k : 0 .. PAGES - 1) { stored[k] = true }
		for (k : 0 .. WORKERS - 1) { uses[k] = NO_FRAME }
		for (k : 0 .. GPUS - 1) { run gpu(k) }
		for (k : 0 .. WORKERS - 1) { run compute(k) }
		run home()
	}
}
