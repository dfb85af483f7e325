/* C side of a UCX worker: slots, rings and the drive loop, which runs with the token held.
 *
 * Ownership: a slot belongs to the goroutine that took it from the free list
 * until it is passed to ms_drive or pushed on the submission stack; then
 * to the token holder; after delivery of its completion, to Go again. Every
 * function here that takes an ms_worker must be called by the token holder,
 * except ms_worker_new and the lock-free push that Go does on `submissions`.
 */
#ifndef MILLSTREAM_UCP_SHIM_H
#define MILLSTREAM_UCP_SHIM_H

#include "abi.h"

#define MS_INLINE 1024 /* payload bytes that fit into a slot */
#define MS_EP_BUCKETS 256
#define MS_HEADER 128  /* active-message header bytes that fit into a slot */

/* Operations, in the order of op.go. */
enum {
    MS_OP_NONE = 0,
    MS_OP_TAG_SEND,
    MS_OP_TAG_SEND_SYNC,
    MS_OP_TAG_RECV,
    MS_OP_TAG_MSG_RECV,
    MS_OP_STREAM_SEND,
    MS_OP_STREAM_RECV,
    MS_OP_AM_SEND,
    MS_OP_AM_RECV,
    MS_OP_PUT,
    MS_OP_GET,
    MS_OP_ATOMIC,
    MS_OP_EP_FLUSH,
    MS_OP_WORKER_FLUSH,
    MS_OP_EP_CLOSE,
    MS_OP_CALL, /* runs fn(worker, slot) under the token, completes immediately */
    MS_OP_COUNT
};

/* Slot states. */
enum { MS_FREE = 0, MS_QUEUED, MS_SUBMITTING, MS_PENDING, MS_DONE, MS_WAITING };

/* Slot flags. */
enum {
    MS_F_IOV = 1,         /* buf is an ux_iov array of len entries */
    MS_F_WAITALL = 2,     /* stream receive fills the buffer */
    MS_F_REPLY = 4,       /* active message carries a reply endpoint */
    MS_F_EAGER = 8,       /* force eager */
    MS_F_RNDV = 16,       /* force rendezvous */
    MS_F_FORCE = 32,      /* endpoint close without flush */
    MS_F_CANCELED = 64,   /* a cancel was requested (set by the shim) */
    MS_F_MULTI_SEND = 128, /* optimize for bandwidth of many messages in flight */
    MS_F_EVENTS = 256,    /* event is a NULL-terminated array of events */
    MS_F_ORDERED = 512    /* a call that must not overtake earlier operations */
};

typedef struct ms_worker ms_worker;
typedef struct ms_ep ms_ep;
typedef struct ms_slot ms_slot;
typedef struct ms_rkey ms_rkey;

struct ms_slot {
    /* Three cache lines: what a submission sets, what a completion sets and the lists; then the data of a small
     * message. */
    ms_slot *next;
    ms_worker *worker;
    uint32_t index;
    uint16_t op;
    uint8_t state;
    uint8_t notify; /* add to the completion list when done */
    ms_ep *ep;
    void *buf;
    uint64_t len;
    uint64_t tag;  /* tag, active-message id, remote address */
    uint64_t mask; /* tag mask, ms_rkey */

    ms_slot *leader; /* of a batch: the slot that is delivered for all of them; NULL: delivered alone */
    void *memh;
    int32_t memtype; /* -1: none */
    uint32_t flags;
    void *event; /* device event (MS_F_EVENTS: events) that must be ready before submission */
    int32_t device;
    int32_t status;
    uint64_t rtag;
    uint64_t rlen;
    void *req;

    ms_slot *ep_prev, *ep_next; /* the endpoint's list of unfinished operations */
    uint64_t left;              /* leader: slots of the batch that are not done */
    uint32_t serial;            /* number of this use of the slot; guards against late cancels */
    uint8_t on_ep, on_rkey;
    uint8_t pad_[2];
    void *hdr; /* header, free for use by calls, serial number of the ms_rkey */
    uint64_t hdrlen;
    void (*fn)(ms_worker *, ms_slot *);
    uint64_t spare_;

    uint8_t inl[MS_INLINE];
    uint8_t hdrbuf[MS_HEADER];
    uint64_t arg[3]; /* atomics: opcode, operand, result; calls: free for use */
    uint64_t pad2_[5];
};

struct ms_ep {
    void *h;
    ms_worker *worker;
    uint64_t id;    /* Go's endpoint number; 0 for a borrowed reply endpoint */
    int32_t err;    /* first failure, 0 while alive */
    uint8_t closed; /* ucp_ep_close_nbx was called: do not call it again; h is invalid */
    uint8_t failing, borrowed;
    uint8_t peer_errors; /* created in peer error mode: UCX force-closes only these */
    ms_ep *next_failed;
    int64_t failed_at; /* time of the failure, in ns */
    ms_slot *ops;
    ms_ep *all_prev, *all_next; /* the worker's list of all endpoints that are not freed */
};

/* An unpacked remote key. UCX uses its handle until the last operation on it has
 * ended, so an earlier release only marks it. The memory stays with the
 * worker and is reused with a new serial number, which identifies operations that were
 * queued before the release. */
struct ms_rkey {
    void *h; /* NULL: free for the next unpack */
    uint64_t serial;
    uint32_t refs, dead;
    ms_rkey *next; /* free or dead list */
    ms_rkey *all;
};

/* Events that Go must be notified of. */
enum { MS_EV_EP_ERROR = 1, MS_EV_CONN_REQUEST, MS_EV_AM, MS_EV_AM_OVERFLOW };

typedef struct ms_event {
    struct ms_event *next;
    uint32_t type;
    int32_t status;
    uint64_t id;       /* endpoint number, listener number, active-message id */
    void *ptr;         /* connection request, active-message data or descriptor */
    uint64_t len;      /* data length */
    void *reply_ep;    /* ucp_ep_h */
    uint32_t hdrlen;
    uint32_t am_kind;  /* MS_AM_* */
    uint32_t addrlen;
    uint32_t spare;    /* of the size that ev_spare keeps */
    uint8_t *hdr;      /* inside this allocation */
    struct sockaddr_storage addr;
} ms_event;

enum { MS_AM_COPY = 0, MS_AM_DESC = 1, MS_AM_RNDV = 2 };

#define MS_SPARE_EVENTS 256 /* events that a worker keeps to use again */

typedef struct {
    uint64_t ops[MS_OP_COUNT], bytes[MS_OP_COUNT], errors;
    uint64_t progress_calls, progress_hits, drives, spins_won, spins_lost, arms, arm_busy, ring_submits;
    uint64_t am_received, am_bytes, am_dropped, ep_errors, ep_created, ep_closed;
} ms_stats;

struct ms_worker {
    /* Shared with Go: the token and the submission stack, each on its own cache line. */
    uint32_t token __attribute__((aligned(64)));
    ms_slot *submissions __attribute__((aligned(64)));
    /* Owned by the token holder. */
    void *h __attribute__((aligned(64)));
    ms_slot *done_head, *done_tail;
    ms_event *ev_head, *ev_tail;
    ms_event *ev_spare; /* events to be used again */
    uint64_t ev_spares;
    ms_slot *wait_head; /* slots that wait for a device event, or behind such, in order */
    ms_ep *failed;
    int32_t efd;
    int32_t device; /* make this device's context current; -1: none */
    int64_t inflight;
    uint32_t unarmed; /* operations were pending after the last arm */
    uint32_t wakefd_plus1;
    uint64_t am_queued, am_limit;
    uint64_t activity;
    uint32_t gather;   /* completions that a drive collects before it returns, while they keep arriving; 0: one */
    uint32_t gathered; /* by the current drive */
    uint64_t immediate; /* drives that ended without progress, as all that was submitted completed immediately */
    int64_t last_spin; /* wait of the last successful drive until it last read the clock, in ns; -1: none */
    struct ms_am_arg *am_args;
    ms_rkey *rkeys_free, *rkeys_dead, *rkeys_all;
    uint64_t rkey_serial;
    ms_ep *eps[MS_EP_BUCKETS]; /* by handle: looked up by every active message with a reply endpoint */
    struct ms_listener *listeners;
    ms_stats stats;
};

/* Results of drive and leave. */
enum { MS_R_OWN = 1, MS_R_WORK = 2, MS_R_TIMEOUT = 4, MS_R_RELEASED = 8, MS_R_NOARM = 16 };

/* Library. */
int ms_load(const char *path, int only_loaded, char *err, size_t errlen);
int ms_quarantine(void);
unsigned ms_progress(ms_worker *w);
int ms_quarantined(void);
int ms_loaded_path(char *buf, size_t n);
void ms_version(unsigned *major, unsigned *minor, unsigned *release);
void ms_device_hooks(void *set_current, void *event_query);
void ms_mark_cloexec(void);

/* Configuration and context. */
int ms_config_read(void **cfg);
int ms_config_modify(void *cfg, const char *name, const char *value);
void ms_config_release(void *cfg);
char *ms_config_text(void *cfg); /* malloc'd */
int ms_context_new(void *cfg, uint64_t features, const char *name, uint64_t num_eps, void **ctx);
void ms_context_free(void *ctx);
int ms_context_query(void *ctx, uint64_t *memory_types, uint32_t *thread_mode, char name[32]);
char *ms_context_text(void *ctx);
int ms_mem_map(void *ctx, void *addr, uint64_t len, int32_t memtype, int32_t device, uint32_t flags, void **memh,
               void **out_addr, uint64_t *out_len);
int ms_mem_unmap(void *ctx, void *memh, int32_t device);
int ms_rkey_pack(void *ctx, void *memh, int32_t device, void **buf, size_t *len);
void ms_rkey_buffer_release(void *buf);

/* Worker. */
int ms_worker_new(void *ctx, uint32_t thread_mode, const char *name, int wakeup, ms_worker **out);
void ms_worker_destroy(ms_worker *w, int tags);
void ms_worker_free(ms_worker *w);
int ms_worker_query(ms_worker *w, uint32_t *thread_mode, uint64_t *max_am_header);
int ms_am_shut_ids(ms_worker *w);
int ms_drive(ms_worker *w, ms_slot *own, int64_t spin_ns);
int ms_leave(ms_worker *w);
int ms_block(ms_worker *w, int timeout_ms);
ms_slot *ms_slots_new(ms_worker *w, uint32_t first_index, uint32_t n);
void ms_slots_free(ms_slot *s);
void ms_event_free(ms_worker *w, ms_event *e);
ms_ep *ms_ep_borrow(ms_worker *w, void *h);
uint64_t ms_ep_id(ms_worker *w, void *h);

/* Calls that run under the token as MS_OP_CALL. Arguments travel in slot fields. */
typedef void (*ms_call)(ms_worker *, ms_slot *);
ms_call ms_call_by_number(int n);

/* Used between the C files. */
void ms_submit(ms_worker *w, ms_slot *s);
void ms_poll_events(ms_worker *w);
void ms_complete(ms_slot *s, int status);
void ms_push_done(ms_worker *w, ms_slot *s);
void ms_ep_fail(ms_ep *ep, int status);
void ms_ep_detach(ms_slot *s);
void ms_push_event(ms_worker *w, ms_event *e);
void ms_run_failed(ms_worker *w);
int64_t ms_now(void);
void ms_cancel(ms_worker *w, ms_slot *s);
void ms_am_args_free(ms_worker *w);
void ms_events_free(ms_worker *w);
int ms_rkey_take(ms_slot *s);
void ms_rkey_drop(ms_slot *s);
void ms_rkeys_sweep(ms_worker *w);
void ms_rkeys_free(ms_worker *w);
void ms_eps_free(ms_worker *w);
void *ms_conn_take(ms_worker *w, uint64_t listener, uint64_t number);
int ms_event_query(void *event);
void ms_set_current(int device);

#define UX_DECLARE(ret, name, args) extern ret(*ux_##name) args;
UX_FUNCS(UX_DECLARE, UX_DECLARE)

#endif
