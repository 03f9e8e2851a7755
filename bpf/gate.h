/* The launch gate: whether a launch is stopped, how its thread is, and who went on though nobody let it go. */
#ifndef GATE_H
#define GATE_H

#define SIGCONT 18
#define SIGSTOP 19
/* Threads of which it is remembered that they were stopped. */
#define THREADS_MAX 65536

/* When each thread was last stopped. */
TABLE(STOPPED, BPF_MAP_TYPE_LRU_HASH, THREADS_MAX, __u64, __u64);

/* Whether the gates obey: an agent that hangs, or whose guard opens them, does not renew its lease. */
static __always_inline struct control *in_force(__u64 now)
{
	__u32 zero = 0;
	struct control *control = bpf_map_lookup_elem(&CONTROL, &zero);
	return control && now < control->lease ? control : 0;
}

/* A thread that was stopped and calls the driver, though its process stands for all we know, was let go by somebody else: we strike it off first.
 * One that was not stopped tells nothing: it may have been on its way into a call as another was, and have waited long for a processor there. */
static __always_inline void notice_leak(__u64 id, __u64 now)
{
	__u32 pid = id >> 32;
	struct standing *standing = bpf_map_lookup_elem(&STANDING, &pid);
	__u64 *stopped = standing ? bpf_map_lookup_elem(&STOPPED, &id) : 0;
	__u64 *resumed = stopped ? bpf_map_lookup_elem(&RESUMED, &pid) : 0;
	if (!stopped || *stopped < standing->began || !in_force(now))
		return;
	/* We let it go since, as another of its threads was on its way into a stop. */
	if (resumed && *resumed > *stopped)
		return;
	bpf_map_delete_elem(&STOPPED, &id);
	tell(now, pid, SAW_LEAK, standing->why);
}

/* A launch that was stopped happened when its process was let go; of that the agent wrote down when. */
static __always_inline void settle(struct span *span, struct gpu_state *gpu, struct gpu_orders *gpu_orders,
				   struct orders *orders, __u64 id, __u64 now)
{
	__u64 *resumed, at;
	__u32 pid = id >> 32;
	if (!span->stands)
		return;
	notice_leak(id, now);
	resumed = bpf_map_lookup_elem(&RESUMED, &pid);
	at = resumed && *resumed > span->stands && *resumed < now ? *resumed : now;
	span->stands = 0;
	if (!span->launches) {
		span->first = span->launched = at;
		span->lost = 0;
	}
	span->resumed = at;
	span->before = span->launches;
	if (orders->flags & BOUNDED)
		fly(span, gpu, gpu_orders, pid, at);
	span->launches++;
}

static __always_inline void stop(struct span *span, __u64 id, __u64 now, __u32 kind, __u64 value)
{
	__u32 pid = id >> 32;
	struct standing standing = {.since = now, .began = now, .value = value, .why = kind};
	struct standing *before = bpf_map_lookup_elem(&STANDING, &pid);
	/* What it launched when it was stopped before may have been waited for by another thread, which was not. */
	notice_leak(id, now);
	if (before)
		standing.began = before->began;
	/* Nobody is stopped who cannot be written down. */
	if (bpf_map_update_elem(&STANDING, &pid, &standing, BPF_ANY))
		return;
	bpf_map_update_elem(&STOPPED, &id, &now, BPF_ANY);
	if (kind == SAW_STAND || kind == SAW_STAND_BOUND)
		span->stands = now;
	/* To this thread. One to the process is swallowed while another thread's is on its way, and the second launch would go through; either stops
	 * all threads. */
	if (bpf_send_signal_thread(SIGSTOP)) {
		bpf_map_delete_elem(&STANDING, &pid);
		span->stands = 0;
		return;
	}
	/* This thread may have waited for a processor while the lease ended, or while its process was let go and struck off: then nobody knows that
	 * it stands. */
	if (!in_force(bpf_ktime_get_ns()) || !bpf_map_lookup_elem(&STANDING, &pid)) {
		bpf_map_delete_elem(&STANDING, &pid);
		if (!bpf_send_signal(SIGCONT)) {
			if (kind == SAW_STAND)
				tell(now, pid, SAW_LAUNCH, 0);
			return;
		}
		bpf_map_update_elem(&STANDING, &pid, &standing, BPF_ANY);
	}
	tell(now, pid, kind, value);
}

/* Whether the launch is to be stopped, and as what. */
static __always_inline __u32 verdict(struct span *span, struct orders *orders, struct gpu_state *gpu,
				     struct gpu_orders *gpu_orders, __u64 now, __u64 *until)
{
	__u64 ahead, left, low;
	struct control *control = in_force(now);
	if (!control)
		return 0;
	if (orders->flags & SHUT_LAUNCHES)
		return SAW_STAND;
	if ((orders->flags & YIELDS) && (gpu->urgent & gpu_orders->urgent_mask) && gpu->urgent_since != orders->beside)
		return SAW_STAND;
	if (!(orders->flags & BOUNDED) || !gpu_orders->bound || !span->estimate)
		return 0;
	ahead = ahead_of(gpu, gpu_orders, now);
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

#endif
