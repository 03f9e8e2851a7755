/* Who submits GPU work, when it drains, and the launch gate.
 *
 * Probes sit on the functions of libcuda that start GPU work or wait for it. What a process has on the GPU is kept here, and only
 * changes reach the agent: idle to busy, busy to idle, stopped at the gate. A process whose gate is shut is sent SIGSTOP at its
 * launch; the signal is taken on the way back to the program, so the launch has not happened yet.
 *
 * Streams are told apart by a hash of 6 bits. Two streams on one bit look like one: their process seems drained when either is.
 *
 * Units: nanoseconds of the monotonic clock. */
#include <linux/bpf.h>
#include <linux/ptrace.h>
#include <bpf/bpf_helpers.h>
#include "launches.h"

#define SIGSTOP 19
#define CUDA_SUCCESS 0
#define PROCESSES_MAX 4096
#define CALLS_MAX 16384
#define BLOCKS_MAX 262144
#define GPUS_MAX 64
#define RING_BYTES (1 << 20)
#define STRAGGLE_NS 10000000

#define TABLE(name, kind, entries, key_type, value_type) \
	struct { \
		__uint(type, kind); \
		__uint(max_entries, entries); \
		__type(key, key_type); \
		__type(value, value_type); \
	} name SEC(".maps")

/* A block of GPU memory, or an event, of one process. */
struct handle {
	__u64 value;
	__u32 pid;
	__u32 pad;
};

/* A call that has not returned. */
struct call {
	__u64 out;   /* where it writes what it allocates */
	__u64 bytes;
	__u64 bits;  /* the streams it waits for */
	__u32 sequence; /* the latest submission it can have waited for */
	__u32 operation;
};

/* The point in a stream where an event was put. */
struct mark {
	__u64 bits;
	__u32 sequence;
	__u32 slot; /* in another, sequences began anew */
	__u32 captured; /* the stream was recording: so does whoever waits for the event */
	__u32 pad;
};

TABLE(SLOTS, BPF_MAP_TYPE_HASH, PROCESSES_MAX, __u32, __u32);
TABLE(ORDERS, BPF_MAP_TYPE_ARRAY, PROCESSES_MAX, __u32, struct orders);
TABLE(SPANS, BPF_MAP_TYPE_ARRAY, PROCESSES_MAX, __u32, struct span);
TABLE(RESUMED, BPF_MAP_TYPE_HASH, PROCESSES_MAX, __u32, __u64);
TABLE(STANDING, BPF_MAP_TYPE_HASH, PROCESSES_MAX, __u32, struct standing);
TABLE(GPU_ORDERS, BPF_MAP_TYPE_ARRAY, GPUS_MAX, __u32, struct gpu_orders);
TABLE(GPU_STATES, BPF_MAP_TYPE_ARRAY, GPUS_MAX, __u32, struct gpu_state);
TABLE(CONTROL, BPF_MAP_TYPE_ARRAY, 1, __u32, struct control);
TABLE(DROPPED, BPF_MAP_TYPE_ARRAY, 1, __u32, __u64);
TABLE(CALLS, BPF_MAP_TYPE_LRU_HASH, CALLS_MAX, __u64, struct call);
TABLE(MARKS, BPF_MAP_TYPE_LRU_HASH, CALLS_MAX, struct handle, struct mark);
TABLE(BLOCKS, BPF_MAP_TYPE_LRU_HASH, BLOCKS_MAX, struct handle, __u64);
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, RING_BYTES);
} EVENTS SEC(".maps");

static __always_inline void tell(__u64 at, __u32 pid, __u32 kind, __u64 value)
{
	struct event *event = bpf_ringbuf_reserve(&EVENTS, sizeof(*event), 0);
	if (!event) {
		__u32 zero = 0;
		__u64 *dropped = bpf_map_lookup_elem(&DROPPED, &zero);
		if (dropped)
			__sync_fetch_and_add(dropped, 1);
		return;
	}
	event->at = at;
	event->pid = pid;
	event->kind = kind;
	event->value = value;
	bpf_ringbuf_submit(event, 0);
}

/* Keeps the compiler from choosing an address first and reading once: the verifier allows no arithmetic on the registers' address. */
#define READ_NOW(value) asm volatile("" : "+r"(value))

static __always_inline __u64 argument(struct pt_regs *regs, __u32 number)
{
	__u64 first = regs->rdi, second = regs->rsi, third = regs->rdx, fourth = regs->rcx;
	READ_NOW(first);
	READ_NOW(second);
	READ_NOW(third);
	READ_NOW(fourth);
	switch (number) {
	case 1: return first;
	case 2: return second;
	case 3: return third;
	case 4: return fourth;
	}
	__u64 fifth = regs->r8, sixth = regs->r9;
	READ_NOW(fifth);
	READ_NOW(sixth);
	return number == 5 ? fifth : number == 6 ? sixth : 0;
}

/* What is ordered for a process, if the slot is its own. */
static __always_inline struct orders *orders_in(__u32 slot, __u32 pid)
{
	struct orders *orders = bpf_map_lookup_elem(&ORDERS, &slot);
	return orders && orders->pid == pid ? orders : 0;
}

static __always_inline struct span *span_in(__u32 slot, __u32 pid)
{
	return orders_in(slot, pid) ? bpf_map_lookup_elem(&SPANS, &slot) : 0;
}

/* The slot of the process that hit a probe. */
static __always_inline __u32 slot_of(__u64 cookie, __u32 pid)
{
	__u32 slot = cookie >> SLOT_SHIFT, *found;
	if (slot != NO_SLOT)
		return slot;
	found = bpf_map_lookup_elem(&SLOTS, &pid);
	return found ? *found : NO_SLOT;
}

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
	if (place == AT_ARGUMENT_9 || place == AT_CONFIGURATION) {
		__u64 from = place == AT_ARGUMENT_9 ? stack + 24 : first + 32;
		bpf_probe_read_user(&stream, sizeof(stream), (void *)from);
	} else {
		stream = argument(regs, place);
	}
	return bit_of(stream, per_thread, thread);
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

#include "in_flight.h"

/* A process that stands and calls the driver all the same was let go by somebody else. Its other threads may be on their way into a call
 * as the first is stopped; later than that, only a process that runs can call. */
static __always_inline void notice_leak(struct orders *orders, __u32 pid, __u64 now)
{
	struct standing *standing;
	if (!(orders->flags & SHUT_LAUNCHES))
		return;
	standing = bpf_map_lookup_elem(&STANDING, &pid);
	if (standing && (standing->thread == (__u32)bpf_get_current_pid_tgid() || now > standing->since + STRAGGLE_NS))
		tell(now, pid, SAW_LEAK, 0);
}

/* A launch that was stopped happened when its process was let go; of that the agent wrote down when. */
static __always_inline void settle(struct span *span, struct gpu_state *gpu, struct orders *orders, __u32 pid, __u64 now)
{
	__u64 *resumed, at;
	if (!span->stands)
		return;
	notice_leak(orders, pid, now);
	resumed = bpf_map_lookup_elem(&RESUMED, &pid);
	at = resumed && *resumed > span->stands && *resumed < now ? *resumed : now;
	span->stands = 0;
	if (span->launches == 0)
		span->first = span->launched = at;
	if (orders->flags & BOUNDED)
		fly(span, gpu, pid, at);
	span->launches++;
}

static __always_inline void stop(struct span *span, __u32 pid, __u64 now, __u32 kind, __u64 value)
{
	struct standing standing = {.since = now, .why = kind, .thread = (__u32)bpf_get_current_pid_tgid()};
	bpf_map_update_elem(&STANDING, &pid, &standing, BPF_ANY);
	if (kind == SAW_STAND || kind == SAW_STAND_BOUND)
		span->stands = now;
	if (bpf_send_signal(SIGSTOP)) {
		bpf_map_delete_elem(&STANDING, &pid);
		span->stands = 0;
		return;
	}
	tell(now, pid, kind, value);
}

/* Whether the launch is to be stopped, and as what. */
static __always_inline __u32 verdict(struct span *span, struct orders *orders, struct gpu_state *gpu,
				     struct gpu_orders *gpu_orders, __u64 now, __u64 *until)
{
	__u32 zero = 0;
	__u64 ahead, left, low;
	struct control *control = bpf_map_lookup_elem(&CONTROL, &zero);
	if (!control || now >= control->lease)
		return 0;
	if (orders->flags & SHUT_LAUNCHES)
		return SAW_STAND;
	if ((orders->flags & YIELDS) && (gpu->urgent & gpu_orders->urgent_mask))
		return SAW_STAND;
	if (!(orders->flags & BOUNDED) || !gpu_orders->bound || !span->estimate)
		return 0;
	ahead = ahead_of(gpu, now);
	if (ahead <= control->early || ahead + span->estimate <= gpu_orders->bound)
		return 0;
	left = gpu_orders->bound > span->estimate ? gpu_orders->bound - span->estimate : 0;
	low = left > control->early ? left : control->early;
	if (low > gpu_orders->bound / 2)
		low = gpu_orders->bound / 2;
	*until = gpu->due - low;
	span->bounded++;
	return SAW_STAND_BOUND;
}

static __always_inline void begin(struct span *span, __u64 now)
{
	span->first = now;
	span->lost = 0;
	span->launches = 0;
	span->bounded = 0;
	span->mixed = 0;
	span->run = 0;
}

static __always_inline void submit(struct span *span, __u64 bit)
{
	span->sequence++;
	span->last[number_of(bit)] = span->sequence;
	/* Whoever waits for the stream so far does not wait for this. */
	span->joins[number_of(bit)] = 0;
	__sync_fetch_and_or(&span->pending, bit);
}

static __always_inline int on_launch(struct span *span, struct orders *orders, __u64 bit, __u32 pid, __u64 now)
{
	__u32 index = orders->gpu, kind;
	__u64 until = 0;
	struct gpu_state *gpu = bpf_map_lookup_elem(&GPU_STATES, &index);
	struct gpu_orders *gpu_orders = bpf_map_lookup_elem(&GPU_ORDERS, &index);
	if (!gpu || !gpu_orders || (span->capturing & bit))
		return 0;
	if (!span->pending)
		begin(span, now);
	settle(span, gpu, orders, pid, now);
	kind = verdict(span, orders, gpu, gpu_orders, now, &until);
	submit(span, bit);
	if (kind) {
		stop(span, pid, now, kind, until);
		return 0;
	}
	if (span->launches == 0) {
		span->launched = now;
		span->heard = 1;
		tell(now, pid, SAW_LAUNCH, 0);
	}
	if (orders->flags & BOUNDED)
		fly(span, gpu, pid, now);
	span->launches++;
	if ((orders->flags & URGENT) && !(gpu->urgent & orders->urgent_bit)) {
		if (!(gpu->urgent & gpu_orders->urgent_mask)) {
			/* Bits that their owners died with. */
			__sync_fetch_and_and(&gpu->urgent, gpu_orders->urgent_mask);
			gpu->urgent_since = now;
			gpu->urgent_work = 0;
			gpu->ahead_then = ahead_of(gpu, now);
		}
		__sync_fetch_and_or(&gpu->urgent, orders->urgent_bit);
	}
	return 0;
}

static __always_inline void on_copy(struct span *span, struct orders *orders, __u64 bit, __u32 pid, __u64 now)
{
	if (span->capturing & bit)
		return;
	if (!span->pending) {
		begin(span, now);
		/* Of a process that was there before its probes, any call tells that it has nothing on the GPU. */
		if ((orders->flags & TELL_COPIES) || !span->heard) {
			span->heard = 1;
			tell(now, pid, SAW_COPY, 0);
		}
	}
	submit(span, bit);
}

/* One or zero, without a branch: the verifier would follow both sides of it 64 times. */
static __always_inline __u64 is_before(__u32 sequence, __u32 other)
{
	return ((other - sequence) >> 31) ^ 1;
}

static __always_inline __u64 has_any(__u64 bits)
{
	return (bits | -bits) >> 63;
}

static __always_inline void drain(struct span *span, struct orders *orders, struct call *call, __u32 pid, __u64 now)
{
	__u32 index = orders->gpu, number;
	__u64 done = 0;
	struct gpu_state *gpu = bpf_map_lookup_elem(&GPU_STATES, &index);
	struct gpu_orders *gpu_orders = bpf_map_lookup_elem(&GPU_ORDERS, &index);
	if (!gpu || !gpu_orders || !span->pending)
		return;
	/* What was submitted after the wait began is not waited for. A stream that waits for another is done after it. */
	for (number = 0; number < STREAM_BITS; number++) {
		__u64 waited = is_before(span->last[number], call->sequence) & (call->bits >> number);
		__u64 through = is_before(span->joined[number], call->sequence) & has_any(span->joins[number] & call->bits);
		done |= ((waited | through) & 1) << number;
	}
	done &= span->pending;
	if (!done || (__sync_fetch_and_and(&span->pending, ~done) & ~done))
		return;
	settle(span, gpu, orders, pid, now);
	if (orders->flags & BOUNDED) {
		learn(span, gpu, gpu->urgent & gpu_orders->urgent_mask, pid, now);
		if (gpu->latest == pid && gpu->due > now)
			gpu->due = now;
	}
	urgent_is_done(span, gpu, gpu_orders->urgent_mask, orders->urgent_bit, now);
	if (span->launches || (orders->flags & TELL_COPIES))
		tell(now, pid, SAW_DRAIN, 0);
	span->launches = 0;
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

/* What a wait waits for, as it begins. */
static __always_inline void on_wait(struct span *span, __u64 first, __u64 cookie, __u64 bit, __u32 pid, __u64 id)
{
	__u32 place = (cookie >> 8) & 0xff;
	struct call call = {.operation = OP_WAIT, .sequence = span->sequence, .bits = bit};
	if (place == AT_EVENT) {
		struct mark *mark = mark_of(span, first, pid);
		call.bits = mark ? mark->bits : 0;
		call.sequence = mark ? mark->sequence : 0;
	} else if (place == AT_EVERYTHING) {
		call.bits = ~0ULL;
	}
	call.bits = waited_for_with(call.bits);
	bpf_map_update_elem(&CALLS, &id, &call, BPF_ANY);
}

/* A stream goes on once an event has come: what the event stands for, and what that waited for, is done when this stream is. */
static __always_inline void on_join(struct span *span, __u64 event, __u64 bit, __u32 pid)
{
	struct mark *mark = mark_of(span, event, pid);
	__u32 number, sequence;
	__u64 bits;
	if (!mark)
		return;
	if (mark->captured && (span->capturing & mark->bits)) {
		span->forked |= bit & ~span->capturing;
		__sync_fetch_and_or(&span->capturing, bit);
		return;
	}
	bits = waited_for_with(mark->bits);
	sequence = ++span->sequence;
	for (number = 0; number < STREAM_BITS; number++) {
		__u64 itself = is_before(span->last[number], mark->sequence) & (bits >> number);
		__u64 through = is_before(span->joined[number], mark->sequence) & has_any(span->joins[number] & bits);
		__u64 covered = -((itself | through) & 1);
		span->joins[number] |= bit & covered;
		span->joined[number] = (span->joined[number] & ~covered) | (sequence & covered);
	}
}

/* A recording is over, and with it that of the streams that waited for it: they must have come back. */
static __always_inline void on_captured(struct span *span, __u64 bit)
{
	__u64 others = span->capturing & ~span->forked & ~bit;
	if (!others) {
		bit |= span->forked;
		span->forked = 0;
	}
	__sync_fetch_and_and(&span->capturing, ~bit);
}

static __always_inline void on_allocate(struct span *span, struct orders *orders, __u64 out, __u64 bytes, __u32 pid,
					__u64 id, __u64 now)
{
	__u32 zero = 0;
	struct control *control = bpf_map_lookup_elem(&CONTROL, &zero);
	struct call call = {.operation = OP_ALLOCATE, .out = out, .bytes = bytes};
	bpf_map_update_elem(&CALLS, &id, &call, BPF_ANY);
	if (control && now < control->lease && (orders->flags & SHUT_ALLOCATIONS))
		stop(span, pid, now, SAW_STAND_ALLOCATION, bytes);
}

static __always_inline void on_free(struct span *span, __u64 address, __u32 pid, __u64 now)
{
	struct handle block = {.value = address, .pid = pid};
	__u64 *bytes = bpf_map_lookup_elem(&BLOCKS, &block);
	if (!bytes)
		return;
	span->memory -= *bytes < span->memory ? *bytes : span->memory;
	bpf_map_delete_elem(&BLOCKS, &block);
	tell(now, pid, SAW_MEMORY, span->memory);
}

static __always_inline void on_context(struct span *span, struct orders *orders, __u32 pid, __u64 now)
{
	__u32 zero = 0;
	struct control *control = bpf_map_lookup_elem(&CONTROL, &zero);
	if (control && now < control->lease && (orders->flags & SHUT_CONTEXT))
		stop(span, pid, now, SAW_STAND_CONTEXT, 0);
}

SEC("uprobe")
int on_entry(struct pt_regs *regs)
{
	__u64 id = bpf_get_current_pid_tgid(), now = bpf_ktime_get_ns(), cookie = bpf_get_attach_cookie(regs);
	__u64 first = regs->rdi, bit;
	__u32 pid = id >> 32, operation = cookie & 0xff, slot;
	struct orders *orders;
	struct span *span;
	if (operation == OP_INIT) {
		tell(now, pid, SAW_INIT, 0);
		return 0;
	}
	slot = slot_of(cookie, pid);
	orders = orders_in(slot, pid);
	span = bpf_map_lookup_elem(&SPANS, &slot);
	if (!orders || !span)
		return 0;
	if (operation == OP_CONTEXT) {
		on_context(span, orders, pid, now);
		return 0;
	}
	if (operation == OP_ALLOCATE) {
		__u32 place = (cookie >> 8) & 0xff;
		__u64 bytes = place == AT_PITCHED ? argument(regs, 3) * argument(regs, 4) : argument(regs, place);
		on_allocate(span, orders, first, bytes, pid, id, now);
		return 0;
	}
	if (operation == OP_FREE) {
		on_free(span, first, pid, now);
		return 0;
	}
	bit = stream_bit(regs, cookie, id);
	if (operation == OP_LAUNCH)
		return on_launch(span, orders, bit, pid, now);
	if (operation == OP_COPY || operation == OP_COPY_AND_WAIT)
		on_copy(span, orders, bit, pid, now);
	if (operation == OP_WAIT || operation == OP_COPY_AND_WAIT)
		on_wait(span, first, cookie, bit, pid, id);
	if (operation == OP_RECORD) {
		struct handle event = {.value = first, .pid = pid};
		struct mark mark = {.bits = bit, .sequence = span->sequence, .slot = slot};
		mark.captured = !!(span->capturing & bit);
		bpf_map_update_elem(&MARKS, &event, &mark, BPF_ANY);
	}
	if (operation == OP_CAPTURE) {
		/* It may fail: only from its return on are launches recorded. */
		struct call call = {.operation = OP_CAPTURE, .bits = bit};
		bpf_map_update_elem(&CALLS, &id, &call, BPF_ANY);
	}
	if (operation == OP_CAPTURED)
		on_captured(span, bit);
	if (operation == OP_JOIN)
		on_join(span, argument(regs, 2), bit, pid);
	return 0;
}

SEC("uretprobe")
int on_return(struct pt_regs *regs)
{
	__u64 id = bpf_get_current_pid_tgid(), now = bpf_ktime_get_ns(), cookie = bpf_get_attach_cookie(regs);
	__u32 pid = id >> 32, slot = cookie >> SLOT_SHIFT;
	struct orders *orders;
	struct span *span;
	struct call *call;
	if ((cookie & 0xff) == OP_CONTEXT) {
		tell(now, pid, SAW_CONTEXT, 0);
		return 0;
	}
	call = bpf_map_lookup_elem(&CALLS, &id);
	if (!call)
		return 0;
	orders = orders_in(slot, pid);
	span = bpf_map_lookup_elem(&SPANS, &slot);
	if (orders && span && (__u32)regs->rax == CUDA_SUCCESS) {
		if (call->operation == OP_WAIT) {
			drain(span, orders, call, pid, now);
		} else if (call->operation == OP_CAPTURE) {
			__sync_fetch_and_or(&span->capturing, call->bits);
		} else if (call->operation == OP_ALLOCATE) {
			struct handle block = {.pid = pid};
			bpf_probe_read_user(&block.value, sizeof(block.value), (void *)call->out);
			bpf_map_update_elem(&BLOCKS, &block, &call->bytes, BPF_ANY);
			span->memory += call->bytes;
			tell(now, pid, SAW_MEMORY, span->memory);
		}
	}
	bpf_map_delete_elem(&CALLS, &id);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
