/* Which streams of a process have work, and which of it a wait waits for.
 *
 * Streams are told apart by a hash of 6 bits. Two streams on one bit look like one: their process seems drained when either is. */
#ifndef STREAMS_H
#define STREAMS_H

#define CU_MEMORYTYPE_DEVICE 2
#define CU_MEMORYTYPE_ARRAY 3

/* The point in a stream where an event was put. */
struct mark {
	__u64 bits;
	__u32 sequence;
	__u32 slot; /* in another, sequences began anew */
	__u32 captured; /* the stream was recording: so does whoever waits for the event */
	__u32 pad;
};

TABLE(MARKS, BPF_MAP_TYPE_LRU_HASH, EVENTS_MAX, struct handle, struct mark);

/* A stream's bit. All legacy default streams are one, bit 0: whoever waits for it waits for all others. */
static __always_inline __u64 bit_of(__u64 stream, __u32 per_thread, __u32 thread)
{
	if (stream == 1 || (stream == 0 && !per_thread))
		return 1;
	if (stream == 2 || stream == 0)
		stream = thread;
	__u64 hash = (stream * 0x9e3779b97f4a7c15ULL) >> 58;
	return 1ULL << (hash ? hash : 1);
}

static __always_inline __u64 stream_bit(struct pt_regs *regs, __u64 cookie, __u32 thread)
{
	__u32 place = (cookie >> 8) & 0xff, per_thread = (cookie >> 16) & PER_THREAD;
	__u64 stream = 0, stack = regs->rsp, first = regs->rdi;
	READ_NOW(stack);
	READ_NOW(first);
	if (place >= AT_ARGUMENT_8 && place <= AT_CONFIGURATION) {
		/* Above the return address are the seventh argument and those after it. */
		__u64 from = place == AT_CONFIGURATION ? first + 32 : stack + 8 * (place - 6);
		bpf_probe_read_user(&stream, sizeof(stream), (void *)from);
	} else {
		stream = argument(regs, place);
	}
	return bit_of(stream, per_thread, thread);
}

/* Whether a copy is described as one from and to the device's own memory: the program does not wait for that. What the driver is to find out
 * itself, it may wait for. */
static __always_inline int is_within_the_device(__u64 cookie, __u64 described)
{
	__u32 place = (cookie >> 8) & 0xff, from = 0, to = 0;
	if (place != AT_PLANE && place != AT_BODY)
		return 0;
	bpf_probe_read_user(&from, sizeof(from), (void *)(described + (place == AT_PLANE ? 16 : 32)));
	bpf_probe_read_user(&to, sizeof(to), (void *)(described + (place == AT_PLANE ? 72 : 120)));
	return (from == CU_MEMORYTYPE_DEVICE || from == CU_MEMORYTYPE_ARRAY) &&
	       (to == CU_MEMORYTYPE_DEVICE || to == CU_MEMORYTYPE_ARRAY);
}

static __always_inline __u32 number_of(__u64 bit)
{
	__u32 number = 0;
	if (bit >> 32) { number += 32; bit >>= 32; }
	if (bit >> 16) { number += 16; bit >>= 16; }
	if (bit >> 8) { number += 8; bit >>= 8; }
	if (bit >> 4) { number += 4; bit >>= 4; }
	if (bit >> 2) { number += 2; bit >>= 2; }
	if (bit >> 1) number += 1;
	return number & (STREAM_BITS - 1);
}

/* The number of what comes next; several threads may ask at once. */
static __always_inline __u32 next_of(struct span *span)
{
	return __sync_fetch_and_add(&span->sequence, 1) + 1;
}

/* Which streams had work before. */
static __always_inline __u64 submit(struct span *span, __u64 bit)
{
	span->last[number_of(bit)] = next_of(span);
	return __sync_fetch_and_or(&span->pending, bit);
}

/* One or zero, without a branch: the verifier would follow both sides of it 64 times. */
static __always_inline __u64 is_before(__u32 sequence, __u32 other)
{
	return ((other - sequence) >> 31) ^ 1;
}

static __always_inline __u64 has_any(__u64 bits)
{
	__u64 negated = -bits;
	READ_NOW(negated);
	return (bits | negated) >> 63;
}

/* The streams that wait for all of a stream: none, if it was given more since they came to. Its number is compared strictly, because two threads
 * that submit at once can have the same. */
static __always_inline __u64 joins_of(struct span *span, __u32 number)
{
	return span->joins[number] & -is_before(span->last[number] + 1, span->joined[number]);
}

/* One if all of a stream is done once a wait for `bits` returns, for what was submitted until `sequence`; else zero. A stream that waits for
 * another is done after it. */
static __always_inline __u64 is_done(struct span *span, __u32 number, __u64 bits, __u32 sequence)
{
	__u64 itself = is_before(*(volatile __u32 *)&span->last[number], sequence) & (bits >> number);
	__u64 through = is_before(span->joined[number], sequence) & has_any(joins_of(span, number) & bits);
	return (itself | through) & 1;
}

/* Which of these streams are. Most programs have work in one. */
static __always_inline __u64 waited_for(struct span *span, __u64 bits, __u32 sequence, __u64 among)
{
	__u64 done = 0;
	__u32 number;
	if (!(among & (among - 1)))
		return among & -is_done(span, number_of(among), bits, sequence);
	for (number = 0; number < STREAM_BITS; number++)
		done |= is_done(span, number, bits, sequence) << number;
	return done & among;
}

/* Whether the legacy default stream has nothing but copies and fills, now that it is given one more: it had nothing, or everybody waits for all
 * that it has. One stream may wait for it because of a kernel. */
static __always_inline int has_only_copies(struct span *span, __u64 bit)
{
	return bit == 1 && (!(span->pending & 1) || (joins_of(span, 0) | 1) == ~0ULL);
}

/* Every stream waits for all of this one, until it is given more. That is so of the legacy default stream and those that were made to block, and
 * programs that fill memory there often wait for their own streams only. Of its kernels it would be bold to say: some wait nowhere else. */
static __always_inline void all_wait_for(struct span *span, __u64 bit)
{
	__u32 number = number_of(bit);
	span->joined[number] = next_of(span);
	span->joins[number] = ~bit;
}

/* The point in a stream that an event stands for. */
static __always_inline struct mark *mark_of(struct span *span, __u64 value, __u32 pid)
{
	struct handle event = {.value = value, .pid = pid};
	struct mark *mark = bpf_map_lookup_elem(&MARKS, &event);
	return mark && mark->slot == span->slot ? mark : 0;
}

/* The legacy default stream waits for all others. */
static __always_inline __u64 waited_for_with(__u64 bits)
{
	return bits & 1 ? ~0ULL : bits;
}

/* An event is put into a stream. */
static __always_inline void on_record(struct span *span, __u64 value, __u64 bit, __u32 pid)
{
	struct handle event = {.value = value, .pid = pid};
	struct mark mark = {.bits = bit, .sequence = span->sequence, .slot = span->slot};
	mark.captured = !!(span->capturing & bit);
	bpf_map_update_elem(&MARKS, &event, &mark, BPF_ANY);
}

/* A stream goes on once an event has come: what the event stands for, and what that waited for, is done when this stream is. */
static __always_inline void on_join(struct span *span, __u64 event, __u64 bit, __u32 pid)
{
	struct mark *mark = mark_of(span, event, pid);
	__u32 number, sequence;
	__u64 done;
	if (!mark)
		return;
	if (mark->captured && (span->capturing & mark->bits & ~bit)) {
		__sync_fetch_and_or(&span->forked, bit & ~span->capturing);
		__sync_fetch_and_or(&span->capturing, bit);
	}
	/* What is recorded does not run, nor does it wait. */
	if (mark->captured || (span->capturing & bit))
		return;
	sequence = next_of(span);
	/* The legacy default stream does not wait for streams that were made not to block, and those are what programs have beside it. */
	done = waited_for(span, mark->bits, mark->sequence, ~0ULL);
	for (number = 0; number < STREAM_BITS; number++) {
		__u64 joins = joins_of(span, number);
		__u64 covered = -((done >> number) & 1), anew = covered & (has_any(joins & bit) - 1);
		span->joins[number] = joins | (bit & covered);
		span->joined[number] = (span->joined[number] & ~anew) | (sequence & anew);
	}
}

static __always_inline void does_not_record(struct span *span, __u64 bits)
{
	__sync_fetch_and_and(&span->capturing, ~bits);
	__sync_fetch_and_and(&span->forked, ~bits);
}

/* A recording is over, and with it that of the streams that waited for it: they must have come back. */
static __always_inline void on_captured(struct span *span, __u64 bit)
{
	__u64 others = span->capturing & ~span->forked & ~bit;
	if (!others)
		bit |= span->forked;
	does_not_record(span, bit);
}

#endif
