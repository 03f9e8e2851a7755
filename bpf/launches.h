/* What the kernel side and the agent say to each other. node/src/facts/launches/layout.rs has the same in Rust; a test
 * compares the two by the sizes in the compiled object's maps. */
#ifndef LAUNCHES_H
#define LAUNCHES_H

/* What a probed function does. The low byte of a probe's cookie. */
enum operation {
	OP_INIT = 1,          /* entry: the process's first call into the driver */
	OP_CONTEXT = 2,       /* entry: it makes a context; return: from here on it can launch */
	OP_LAUNCH = 3,        /* entry: work that the gate stops */
	OP_COPY = 4,          /* entry: work that the gate lets through */
	OP_COPY_AND_WAIT = 5, /* entry: the same; return: it is done */
	OP_WAIT = 6,          /* entry and return: waits for a stream, an event or everything; also asks whether it is done */
	OP_RECORD = 7,        /* entry: an event is put into a stream */
	OP_CAPTURE = 8,       /* entry: launches into a stream are recorded from here on, and do not run */
	OP_CAPTURED = 9,      /* entry: no more */
	OP_ALLOCATE = 10,     /* entry and return */
	OP_FREE = 11,         /* entry */
	OP_JOIN = 12,         /* entry: a stream waits for an event, the second argument, before it goes on */
	OP_MAP = 13,          /* entry: memory made under a handle, the fourth argument, has an address from here on, the first */
	OP_UNMAP = 14,        /* entry: what is at an address, and so many bytes on, has none */
};

/* Where an operation's stream is, or an allocation's size. The second byte of the cookie. */
enum place {
	AT_NOWHERE = 0, /* it has none, and so uses the default stream */
	AT_ARGUMENT_1 = 1, /* … up to 6: in that argument */
	AT_ARGUMENT_6 = 6,
	AT_ARGUMENT_8 = 8,   /* on the stack, as is the ninth: cuMemcpyBatchAsync_v2 */
	AT_ARGUMENT_9 = 9,   /* cuLaunchKernel */
	AT_CONFIGURATION = 10, /* cuLaunchKernelEx: in the structure that its first argument points to */
	AT_EVENT = 11,       /* an event in the first argument stands for the stream it was put into */
	AT_EVERYTHING = 12,  /* it waits for the whole context */
	AT_PITCHED = 13,     /* an allocation of rows: arguments 3 and 4 are width and height */
	AT_PLANE = 14,       /* a copy in the default stream that the first argument describes, which waits unless it is within the device: cuMemcpy2D */
	AT_BODY = 15,        /* the same in three dimensions */
};

/* The third byte of the cookie. */
#define PER_THREAD 1 /* stream 0 is the thread's own, not the one that all share (`_ptsz`, `_ptds`) */

/* The rest of the cookie: the slot of the one process that is probed. Finding it by its number took 0.1 us of every launch. */
#define SLOT_SHIFT 24
#define NO_SLOT 0 /* the probe is on every process */

/* What the agent orders for the process in a slot. Written by the agent only. */
struct orders {
	__u32 pid; /* whose slot it is; 0: nobody's. Its last owner may still have probes that name it */
	__u32 gpu;
	__u32 flags;
	__u32 pad;
	__u64 urgent_bit; /* its bit among the urgent ones of its GPU; it keeps it, for work that it launched while it was urgent */
	__u64 beside;     /* the urgent work beside which it may run all the same, by when that began */
};
#define SHUT_LAUNCHES 1    /* stop it at its next launch */
#define SHUT_ALLOCATIONS 2 /* stop it at its next allocation */
#define URGENT 4           /* while it has work on the GPU, those that yield are stopped at their next launch */
#define YIELDS 8
#define BOUNDED 16         /* its time in flight counts against its GPU's bound */
#define TELL_COPIES 32     /* its requests are tasks, and a task begins with its input */
#define SHUT_CONTEXT 64    /* stop it before its first context: contexts are made in turn */

/* What the agent orders for one GPU. */
struct gpu_orders {
	__u64 urgent_mask; /* the bits of processes that still live */
	__u64 bound;       /* nanoseconds that all bounded processes together may have in flight; 0: no bound */
	__u64 cleared;     /* what was launched before does not count as in flight: somebody died with work of its there */
};

/* What the agent orders for all. */
struct control {
	__u64 lease; /* until then the gates are shut that are shut; an agent that hangs does not renew it */
	__u64 early; /* how long before the GPU should run dry a stopped process is let go */
};

#define STREAM_BITS 64
#define NOT_ALONE ~0ULL

/* What one process has on the GPU. Written by the kernel only. */
struct span {
	__u64 pending;   /* one bit for each stream that has work */
	__u64 capturing; /* one bit for each stream whose launches are recorded, not run */
	__u64 forked;    /* those of them that record because they wait for one that does */
	__u64 first;     /* when the first work since idle was submitted */
	__u64 lost;      /* nanoseconds since then in which the GPU did not work for it */
	__u64 done;      /* when its latest launch should be done, if others have launched since */
	__u64 latest;    /* when its latest launch was made */
	__u64 ahead;     /* what of its own should have been in flight then; NOT_ALONE: others' work, too */
	__u64 estimate;  /* nanoseconds of GPU time of one launch; 0: not known */
	__u64 least;     /* the least that was measured of that lately */
	__u64 launched;  /* when the first launch since idle was made */
	__u64 asked;     /* when it last asked whether its work was done, and it was not */
	__u64 stands;    /* since when it stands at its gate; 0: it does not */
	__u64 resumed;   /* when it last went on from there, in this span */
	__u64 memory;    /* bytes it has allocated */
	__u64 sequence;  /* of its submissions */
	__u32 launches;  /* since `first` */
	__u32 bounded;   /* how often the bound stopped it since `first` */
	__u32 heard;     /* the agent has heard of it */
	__u32 measured;  /* how many spans `least` is of */
	__u32 mixed;     /* others' work was in flight with it */
	__u32 run;       /* launches since the GPU last had none of its */
	__u32 slot;      /* its own */
	__u32 before;    /* launches until then */
	__u32 last[STREAM_BITS]; /* the latest submission to each stream */
	__u32 joined[STREAM_BITS]; /* when others last came to wait for all of it, as a submission */
	__u64 joins[STREAM_BITS];  /* those others: whoever waits for one of them waits for this stream, too */
};

/* What one GPU does, as far as it can be told. Written by the kernel only. */
struct gpu_state {
	__u64 urgent;       /* bits of urgent processes that have work */
	__u64 urgent_since;
	__u64 urgent_work;  /* nanoseconds of GPU time that urgent processes have had since then */
	__u64 ahead_then;   /* what was in flight of bounded ones at that moment */
	__u64 due;          /* when the work of the bounded ones should be done */
	__u64 flown;        /* when the latest of it was launched */
	__u64 urgent_until; /* when an urgent process last drained */
	__u32 latest;       /* the bounded process that launched last */
	__u32 latest_slot;
};

/* Who was stopped by us: this list cannot lag behind, since the program that stops writes it first. */
struct standing {
	__u64 since;  /* when the latest of its threads was stopped */
	__u64 began;  /* and the first, since it was last let go */
	__u64 value;  /* what its event says */
	__u32 why;    /* the event's kind */
	__u32 pad;
};

/* What the agent hears. */
struct event {
	__u64 at;
	__u32 pid;
	__u32 kind;
	__u64 value;
};
enum kind {
	SAW_INIT = 1,
	SAW_CONTEXT = 2,
	SAW_COPY = 3,      /* the first work since idle is a copy */
	SAW_LAUNCH = 4,    /* the first launch since idle, or the first that is urgent */
	SAW_DRAIN = 5,
	SAW_STAND = 6,     /* stopped at a launch */
	SAW_STAND_ALLOCATION = 7, /* value: bytes */
	SAW_STAND_BOUND = 8, /* stopped until value: too much is in flight */
	SAW_LEAK = 9,      /* it was stopped and came again, though nobody let it go; value: where it was stopped */
	SAW_MEMORY = 10,   /* value: bytes it has now */
	SAW_STAND_CONTEXT = 11, /* stopped before its first context */
};

#endif
