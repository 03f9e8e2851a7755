/* Who submits GPU work, when it drains, and the launch gate.
 *
 * Probes sit on the functions of libcuda that start GPU work or wait for it. What a process has on the GPU is kept here, and only
 * changes reach the agent: idle to busy, busy to idle, stopped at the gate. A process whose gate is shut is sent SIGSTOP at its
 * launch; the signal is taken on the way back to the program, so the launch has not happened yet.
 *
 * Units: nanoseconds of the monotonic clock. */
#include <linux/bpf.h>
#include <linux/ptrace.h>
#include <bpf/bpf_helpers.h>
#include "launches.h"

#define CUDA_SUCCESS 0
#define CUDA_ERROR_NOT_READY 600
#define CUDA_ERROR_ECC_UNCORRECTABLE 214
#define CUDA_ERROR_NVLINK_UNCORRECTABLE 220
/* The first and the last of the errors with which a kernel ends its context. */
#define CUDA_ERROR_ILLEGAL_ADDRESS 700
#define CUDA_ERROR_TENSOR_MEMORY_LEAK 721
#define PROCESSES_MAX 4096
/* Of these the oldest are given up when there are more; on machines with many processors each keeps some hundred places to itself. */
#define CALLS_MAX 65536
#define EVENTS_MAX 131072
#define BLOCKS_MAX 262144
#define GPUS_MAX 64
#define RING_BYTES (1 << 20)
#define AGAIN_AFTER_NS 10000000

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
	__u64 stream; /* the only one that it waits for, if it named one */
	__u64 since;
	__u32 sequence; /* the latest submission it can have waited for */
	__u32 slot;     /* in another, sequences began anew */
	__u32 operation;
	__u32 pad;
};

/* What anybody may do, managed or not, as often as it likes. */
struct told {
	__u32 pid;
	__u32 kind;
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
TABLE(TOLD, BPF_MAP_TYPE_LRU_HASH, PROCESSES_MAX, struct told, __u64);
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

/* Whoever does that again and again is told of now and then: a tenant must not keep the agent busy with it. */
static __always_inline void tell_now_and_then(__u64 at, __u32 pid, __u32 kind)
{
	struct told told = {.pid = pid, .kind = kind};
	__u64 *latest = bpf_map_lookup_elem(&TOLD, &told);
	if (latest && at - *latest < AGAIN_AFTER_NS)
		return;
	bpf_map_update_elem(&TOLD, &told, &at, BPF_ANY);
	tell(at, pid, kind, 0);
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

#include "streams.h"
#include "in_flight.h"
#include "gate.h"

/* Of two threads, the one whose work was done has its moment by now: this one's is later. */
static __always_inline __u64 begin(struct span *span)
{
	__u64 now = bpf_ktime_get_ns();
	span->first = now;
	span->lost = 0;
	span->launches = 0;
	span->bounded = 0;
	span->mixed = 0;
	span->run = 0;
	span->before = 0;
	return now;
}

static __always_inline int on_launch(struct span *span, struct orders *orders, __u64 bit, __u64 id, __u64 now)
{
	__u32 index = orders->gpu, pid = id >> 32, kind, is_first, turns_urgent;
	__u64 until = 0;
	struct gpu_state *gpu = bpf_map_lookup_elem(&GPU_STATES, &index);
	struct gpu_orders *gpu_orders = bpf_map_lookup_elem(&GPU_ORDERS, &index);
	if (!gpu || !gpu_orders || (span->capturing & bit))
		return 0;
	if (!submit(span, bit))
		now = begin(span);
	settle(span, gpu, gpu_orders, orders, id, now);
	kind = verdict(span, orders, gpu, gpu_orders, now, &until);
	/* Whom the bound stops is on its way to the GPU. Of whom a gate stops, the agent says when it went on. */
	is_first = span->launches == 0 && kind != SAW_STAND;
	turns_urgent = !kind && (orders->flags & URGENT) && !(gpu->urgent & orders->urgent_bit);
	if (is_first)
		span->launched = now;
	if (is_first || turns_urgent) {
		span->heard = 1;
		tell(now, pid, SAW_LAUNCH, 0);
	}
	if (kind) {
		stop(span, id, now, kind, until);
		return 0;
	}
	if (orders->flags & BOUNDED)
		fly(span, gpu, gpu_orders, pid, now);
	span->launches++;
	if (turns_urgent) {
		if (!(gpu->urgent & gpu_orders->urgent_mask)) {
			/* Bits that their owners died with. */
			__sync_fetch_and_and(&gpu->urgent, gpu_orders->urgent_mask);
			gpu->urgent_since = now;
			gpu->urgent_work = 0;
			gpu->ahead_then = ahead_of(gpu, gpu_orders, now);
		}
		__sync_fetch_and_or(&gpu->urgent, orders->urgent_bit);
	}
	return 0;
}

static __always_inline void on_copy(struct span *span, struct orders *orders, __u64 bit, __u32 pid, __u64 now)
{
	int only_copies = has_only_copies(span, bit);
	if (span->capturing & bit)
		return;
	if (!submit(span, bit)) {
		now = begin(span);
		/* Of a process that was there before its probes, any call tells that it has nothing on the GPU. */
		if ((orders->flags & TELL_COPIES) || !span->heard) {
			span->heard = 1;
			tell(now, pid, SAW_COPY, 0);
		}
	}
	if (only_copies)
		all_wait_for(span, bit);
}

/* While the work of one stream seemed done, a wait for the others returned, and told that there was none. */
static __always_inline void is_busy_still(struct span *span, struct gpu_state *gpu, struct orders *orders, __u32 pid)
{
	if (!span->launches || span->stands)
		return;
	if (orders->flags & URGENT)
		__sync_fetch_and_or(&gpu->urgent, orders->urgent_bit);
	tell(bpf_ktime_get_ns(), pid, SAW_LAUNCH, 0);
}

static __always_inline void drain(struct span *span, struct orders *orders, struct call *call, __u64 id, __u64 now)
{
	__u32 index = orders->gpu, pid = id >> 32, launched;
	__u64 pending = span->pending, done, more, before;
	struct gpu_state *gpu = bpf_map_lookup_elem(&GPU_STATES, &index);
	struct gpu_orders *gpu_orders = bpf_map_lookup_elem(&GPU_ORDERS, &index);
	if (!gpu || !gpu_orders)
		return;
	if (!pending) {
		/* Of a process that was there before its probes a wait for everything tells that it has nothing there. */
		if (!span->heard && call->bits == ~0ULL) {
			span->heard = 1;
			tell(now, pid, SAW_DRAIN, 0);
		}
		return;
	}
	done = waited_for(span, call->bits, call->sequence, pending);
	/* Once nothing is left, another thread may begin anew. */
	launched = span->launches || span->stands;
	if (!done)
		return;
	before = __sync_fetch_and_and(&span->pending, ~done);
	/* Another thread may have given one of these streams more, and have found that it had work: then it has it still. If it is back already,
	 * that thread has found none, and has begun anew. */
	more = done & ~waited_for(span, call->bits, call->sequence, done);
	if (more) {
		__u64 meanwhile = __sync_fetch_and_or(&span->pending, more);
		if (!meanwhile && (before & ~done))
			is_busy_still(span, gpu, orders, pid);
		if ((meanwhile & more) != more)
			return;
	}
	/* Of two waits that return at once, one tells. */
	if (!(before & done) || (before & ~done))
		return;
	settle(span, gpu, gpu_orders, orders, id, now);
	if (orders->flags & BOUNDED) {
		learn(span, gpu, gpu->urgent & gpu_orders->urgent_mask, call->since, pid, now);
		if (gpu->latest == pid && gpu->due > now)
			gpu->due = now;
	}
	urgent_is_done(span, gpu, gpu_orders->urgent_mask, orders->urgent_bit, now);
	if (launched || (orders->flags & TELL_COPIES))
		tell(now, pid, SAW_DRAIN, 0);
}

/* A thread that stood at its launch and waits for it now has launched: whoever comes meanwhile must know that it is in flight. */
static __always_inline void settle_its_own(struct span *span, struct orders *orders, __u64 id, __u64 now)
{
	__u32 index = orders->gpu;
	__u64 *stopped = span->stands ? bpf_map_lookup_elem(&STOPPED, &id) : 0;
	struct gpu_state *gpu = stopped ? bpf_map_lookup_elem(&GPU_STATES, &index) : 0;
	struct gpu_orders *gpu_orders = gpu ? bpf_map_lookup_elem(&GPU_ORDERS, &index) : 0;
	if (gpu_orders && *stopped == span->stands)
		settle(span, gpu, gpu_orders, orders, id, now);
}

/* What a wait waits for, as it begins. */
static __always_inline void on_wait(struct span *span, __u64 first, __u64 cookie, __u64 bit, __u32 pid, __u64 id, __u64 now)
{
	__u32 place = (cookie >> 8) & 0xff;
	struct call call = {.operation = OP_WAIT, .slot = span->slot, .sequence = span->sequence, .bits = bit, .since = now};
	if (place == AT_EVENT) {
		struct mark *mark = mark_of(span, first, pid);
		call.bits = mark ? mark->bits : 0;
		call.sequence = mark ? mark->sequence : 0;
	} else if (place == AT_EVERYTHING) {
		call.bits = ~0ULL;
	} else if (place != AT_NOWHERE && place <= AT_CONFIGURATION) {
		call.stream = bit;
	}
	call.bits = waited_for_with(call.bits);
	bpf_map_update_elem(&CALLS, &id, &call, BPF_ANY);
}

static __always_inline void on_allocate(struct span *span, struct orders *orders, __u64 out, __u64 bytes, __u64 id, __u64 now)
{
	struct call call = {.operation = OP_ALLOCATE, .slot = span->slot, .out = out, .bytes = bytes};
	struct call *before = bpf_map_lookup_elem(&CALLS, &id);
	/* While probes take the place of others, both tell of it. */
	if (before && before->operation == OP_ALLOCATE && before->slot == call.slot && before->out == out && before->bytes == bytes)
		return;
	bpf_map_update_elem(&CALLS, &id, &call, BPF_ANY);
	notice_leak(id, now);
	if ((orders->flags & SHUT_ALLOCATIONS) && in_force(now))
		stop(span, id, now, SAW_STAND_ALLOCATION, bytes);
}

/* `whole`: of how many bytes it is known that they are gone; 0: the block's. */
static __always_inline void on_free(struct span *span, __u64 address, __u64 whole, __u32 pid, __u64 now)
{
	struct handle block = {.value = address, .pid = pid};
	__u64 *bytes = bpf_map_lookup_elem(&BLOCKS, &block), less, before = span->memory;
	if (!bytes)
		return;
	less = whole > *bytes ? whole : *bytes;
	if (less > before)
		less = before;
	bpf_map_delete_elem(&BLOCKS, &block);
	before = __sync_fetch_and_add(&span->memory, -less);
	if (before < less) {
		/* Another thread took away what this one counted on. */
		__sync_fetch_and_add(&span->memory, less - before);
		before = less;
	}
	tell(now, pid, SAW_MEMORY, before - less);
}

/* Memory that is mapped stays until it is mapped no more, whatever becomes of the handle it was made under. */
static __always_inline void on_map(__u64 address, __u64 handle, __u32 pid)
{
	struct handle made = {.value = handle, .pid = pid}, mapped = {.value = address, .pid = pid};
	__u64 *found = bpf_map_lookup_elem(&BLOCKS, &made), bytes;
	if (!found)
		return;
	bytes = *found;
	bpf_map_delete_elem(&BLOCKS, &made);
	bpf_map_update_elem(&BLOCKS, &mapped, &bytes, BPF_ANY);
}

static __always_inline void on_context(struct span *span, struct orders *orders, __u64 id, __u64 now)
{
	if ((orders->flags & SHUT_CONTEXT) && in_force(now))
		stop(span, id, now, SAW_STAND_CONTEXT, 0);
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
		tell_now_and_then(now, pid, SAW_INIT);
		return 0;
	}
	slot = slot_of(cookie, pid);
	orders = orders_in(slot, pid);
	span = bpf_map_lookup_elem(&SPANS, &slot);
	if (!orders || !span)
		return 0;
	if (operation == OP_CONTEXT) {
		on_context(span, orders, id, now);
		return 0;
	}
	if (operation == OP_ALLOCATE) {
		__u32 place = (cookie >> 8) & 0xff;
		__u64 bytes = place == AT_PITCHED ? argument(regs, 3) * argument(regs, 4) : argument(regs, place);
		on_allocate(span, orders, first, bytes, id, now);
		return 0;
	}
	if (operation == OP_FREE || operation == OP_UNMAP) {
		on_free(span, first, operation == OP_UNMAP ? argument(regs, 2) : 0, pid, now);
		return 0;
	}
	if (operation == OP_MAP) {
		on_map(first, argument(regs, 4), pid);
		return 0;
	}
	bit = stream_bit(regs, cookie, id);
	if (operation == OP_COPY_AND_WAIT && is_within_the_device(cookie, first))
		operation = OP_COPY;
	if (operation == OP_LAUNCH)
		return on_launch(span, orders, bit, id, now);
	if (operation == OP_COPY || operation == OP_COPY_AND_WAIT)
		on_copy(span, orders, bit, pid, now);
	if (operation == OP_WAIT || operation == OP_COPY_AND_WAIT) {
		settle_its_own(span, orders, id, now);
		on_wait(span, first, cookie, bit, pid, id, now);
	}
	if (operation == OP_RECORD)
		on_record(span, first, bit, pid);
	if (operation == OP_CAPTURE) {
		/* It may fail: only from its return on are launches recorded. */
		struct call call = {.operation = OP_CAPTURE, .slot = slot, .bits = bit};
		bpf_map_update_elem(&CALLS, &id, &call, BPF_ANY);
	}
	if (operation == OP_CAPTURED)
		on_captured(span, bit);
	if (operation == OP_JOIN)
		on_join(span, argument(regs, 2), bit, pid);
	return 0;
}

/* Whether a wait returned because a kernel failed. Such an error ends the context: whatever was on the GPU is gone, and every later wait says
 * the same. */
static __always_inline int ended_its_context(__u32 result)
{
	return (result >= CUDA_ERROR_ILLEGAL_ADDRESS && result <= CUDA_ERROR_TENSOR_MEMORY_LEAK) ||
	       result == CUDA_ERROR_ECC_UNCORRECTABLE || result == CUDA_ERROR_NVLINK_UNCORRECTABLE;
}

SEC("uretprobe")
int on_return(struct pt_regs *regs)
{
	__u64 id = bpf_get_current_pid_tgid(), now = bpf_ktime_get_ns(), cookie = bpf_get_attach_cookie(regs);
	__u32 pid = id >> 32, slot = cookie >> SLOT_SHIFT, result;
	struct orders *orders;
	struct span *span;
	struct call *call;
	if ((cookie & 0xff) == OP_CONTEXT) {
		tell_now_and_then(now, pid, SAW_CONTEXT);
		return 0;
	}
	call = bpf_map_lookup_elem(&CALLS, &id);
	if (!call || call->slot != slot)
		return 0;
	orders = orders_in(slot, pid);
	span = bpf_map_lookup_elem(&SPANS, &slot);
	result = regs->rax;
	if (orders && span && call->operation == OP_WAIT && result == CUDA_ERROR_NOT_READY)
		span->asked = now;
	if (orders && span && call->operation == OP_WAIT && ended_its_context(result)) {
		call->bits = ~0ULL;
		call->sequence = span->sequence;
		result = CUDA_SUCCESS;
	}
	if (orders && span && result == CUDA_SUCCESS) {
		if (call->operation == OP_WAIT) {
			/* Nobody can wait for a stream that records: whatever we missed, it does not. */
			if (span->capturing & call->stream)
				does_not_record(span, call->stream);
			drain(span, orders, call, id, now);
		} else if (call->operation == OP_CAPTURE) {
			__sync_fetch_and_and(&span->forked, ~call->bits);
			__sync_fetch_and_or(&span->capturing, call->bits);
		} else if (call->operation == OP_ALLOCATE) {
			struct handle block = {.pid = pid};
			bpf_probe_read_user(&block.value, sizeof(block.value), (void *)call->out);
			bpf_map_update_elem(&BLOCKS, &block, &call->bytes, BPF_ANY);
			tell(now, pid, SAW_MEMORY, __sync_fetch_and_add(&span->memory, call->bytes) + call->bytes);
		}
	}
	bpf_map_delete_elem(&CALLS, &id);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
