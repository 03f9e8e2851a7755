/* How much GPU time is in flight, and what a launch takes.
 *
 * Work on the GPU cannot be called back, so an urgent launch waits for all that others have queued. For each GPU `due` says when the
 * work of the bounded processes should be done: every launch moves it by the process's estimate. A launch that would bring more than
 * the bound into flight is stopped until little is left.
 *
 * The estimate is learnt at drains. While the bound is not in force it is the time of the span, less the gaps in which the GPU had
 * nothing and what urgent processes took (their own work as it is when nobody disturbs them, not the time they had to wait for it),
 * shared among its launches: every error of that makes it longer, so the least of the last few counts. While the bound is in force the
 * GPU may idle because of us, so the estimate is corrected by how early or late the work was done.
 *
 * Who does something else while the GPU works, and waits afterwards, does not tell when its work was done: only that it was no later. That makes
 * no estimate longer; or one that prepares its next input meanwhile would be stopped longer and longer for work that is long done. */
#ifndef IN_FLIGHT_H
#define IN_FLIGHT_H

/* Spans of which the shortest launch is taken. */
#define MEASURED_MAX 8
/* A launch that takes longer is one that urgent work feels. */
#define LONG_NS 1000000
/* Of the time since its latest launch, how much a process must have waited, at least, to tell when its work was done: one part in so many. A wait
 * that has nothing to wait for takes time, too. */
#define WAITED_PART 4

/* What is in flight of bounded processes. */
static __always_inline __u64 ahead_of(struct gpu_state *gpu, struct gpu_orders *gpu_orders, __u64 now)
{
	return gpu->due > now && gpu->flown > gpu_orders->cleared ? gpu->due - now : 0;
}

/* A little more than the estimate, so that errors add up to a GPU that waits and not to a queue that grows. Of long launches one too many
 * costs urgent work dearly; of short ones the GPU would wait often. */
static __always_inline __u64 added_to(__u64 estimate)
{
	return estimate > LONG_NS ? estimate / 32 : estimate / 256;
}

/* A launch of a bounded process reaches the GPU, where it starts once all that is in flight is done. */
static __always_inline void fly(struct span *span, struct gpu_state *gpu, struct gpu_orders *gpu_orders, __u32 pid,
				__u64 now)
{
	__u64 start = now + ahead_of(gpu, gpu_orders, now), since;
	if (gpu->latest == pid) {
		span->done = gpu->due;
		span->ahead = start - now;
	} else {
		struct span *theirs = span_in(gpu->latest_slot, gpu->latest);
		if (theirs)
			theirs->done = gpu->due;
		if (theirs && theirs->pending)
			theirs->mixed = span->mixed = 1;
		gpu->latest = pid;
		span->ahead = start > now ? NOT_ALONE : 0;
	}
	/* Always: it may have come back in another slot. */
	gpu->latest_slot = span->slot;
	/* From the end of its work, or from the beginning, the GPU had nothing to do or did something else. While nobody knows what a launch
	 * takes, nor does anybody know when its work ends: each would look done as soon as it was made. */
	since = span->launches && span->done > span->first ? span->done : span->first;
	if (start > since && (span->estimate || !span->launches))
		span->lost += start - since;
	span->latest = now;
	span->run = start > now ? span->run + 1 : 1;
	gpu->due = start + span->estimate + added_to(span->estimate);
	/* A launch that was stopped is accounted for later than it was made. */
	if (now > gpu->flown)
		gpu->flown = now;
}

/* One more measurement of what a launch takes. Whatever disturbs it makes it longer, so the least of the last few counts. */
static __always_inline void measure(struct span *span, __u64 each)
{
	if (!span->measured || each < span->least)
		span->least = each;
	span->measured++;
	if (!span->estimate || each < span->estimate)
		span->estimate = each;
	if (span->measured < MEASURED_MAX)
		return;
	span->estimate = span->least;
	span->measured = 0;
}

/* The error of one launch, if `run` of them together are so much off. What others did meanwhile may be in it, and so may a processor that
 * came late: no single span changes an estimate much. */
static __always_inline __u64 error_of(struct span *span, __u64 together)
{
	__u64 each = together / span->run, most = span->estimate / 4;
	return each < most ? each : most;
}

/* Whether a process knows when its work was done: it waited, since then, or it had asked a moment ago, and it was not. */
static __always_inline int has_waited(struct span *span, __u64 since, __u64 now)
{
	__u64 tail = now - span->latest;
	return (now - since) * WAITED_PART >= tail ||
	       (span->asked > span->latest && (now - span->asked) * WAITED_PART <= tail);
}

/* What a launch took, at the most, if all of a span took so long. Of one that stood meanwhile and has no figure yet, nobody knows what the GPU did
 * then: the launches of the whole span were done in all of it, and those after it stood in the time since, which may also be that of those before. */
static __always_inline __u64 each_of(struct span *span, __u64 all, __u64 now)
{
	__u64 each = all / span->launches, since;
	__u32 launches = span->launches - span->before;
	if (span->estimate || !span->before || !launches || now <= span->resumed)
		return each;
	since = (now - span->resumed) / launches;
	return since < each ? since : each;
}

/* A span of a bounded process is over. Without the bound, its length says what a launch takes. With it, what counts is how wrong the
 * forecast of its end was: that error is the sum of `run` launches' errors. `since`: when the process began to wait. */
static __always_inline void learn(struct span *span, struct gpu_state *gpu, __u64 urgent, __u64 since, __u32 pid, __u64 now)
{
	__u64 length = now - span->first, tail = now - span->latest, error, each;
	int waited = has_waited(span, since, now);
	/* Another thread may have begun the next span. */
	if (now <= span->first || now < span->latest)
		return;
	if (!span->launches || urgent || span->lost >= length)
		return;
	if (!span->bounded || !span->estimate) {
		each = each_of(span, length - span->lost, now);
		/* For a first figure a wait must be long: a short part of the time may still be what was left of the work. */
		if (!span->estimate && now - since >= LONG_NS)
			waited = 1;
		if (!span->mixed && (waited || each < span->estimate))
			measure(span, each);
		return;
	}
	span->measured = 0;
	if (gpu->latest != pid || !span->run || span->ahead == NOT_ALONE || gpu->urgent_until > span->latest)
		return;
	if (now >= gpu->due) {
		if (waited)
			span->estimate += (error_of(span, now - gpu->due) + added_to(span->estimate)) / 2;
		return;
	}
	error = error_of(span, gpu->due - now);
	/* The GPU ran dry before the latest launch, and nobody knows for how long. If that launch was alone, it tells what one takes. */
	if (tail <= span->estimate)
		error = span->ahead < span->estimate / 2 ? span->estimate - tail
			: error > span->estimate / 64 ? error : span->estimate / 64;
	else if (error < added_to(span->estimate)) {
		span->estimate += (added_to(span->estimate) - error) / 2;
		return;
	} else
		error -= added_to(span->estimate);
	span->estimate -= error / 2;
}

/* A process that was urgent when it launched has nothing on the GPU any more. What it took beyond its own work went to those in flight. */
static __always_inline void urgent_is_done(struct span *span, struct gpu_state *gpu, __u64 mask, __u64 bit, __u64 now)
{
	__u64 took, theirs;
	struct span *latest;
	if (!(gpu->urgent & bit))
		return;
	if (span->launches && now > span->launched)
		measure(span, each_of(span, now - span->launched, now));
	gpu->urgent_work += span->estimate * span->launches;
	__sync_fetch_and_and(&gpu->urgent, ~bit);
	/* Another thread of its may have launched meanwhile, and have found it urgent. */
	if (*(volatile __u64 *)&span->pending) {
		__sync_fetch_and_or(&gpu->urgent, bit);
		return;
	}
	gpu->urgent_until = now;
	/* With nothing in flight it took a gap, and gaps are accounted for when they end. */
	if ((gpu->urgent & mask) || !gpu->ahead_then)
		return;
	took = now - gpu->urgent_since;
	if (gpu->urgent_work > took)
		gpu->urgent_work = took;
	theirs = took - gpu->urgent_work;
	gpu->due = now + (gpu->ahead_then > theirs ? gpu->ahead_then - theirs : 0);
	latest = span_in(gpu->latest_slot, gpu->latest);
	if (latest)
		latest->lost += gpu->urgent_work;
}

#endif
