/* The worker: driving progress under the token, completion and event lists. */
#define _GNU_SOURCE
#include "shim.h"
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int64_t ms_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int ms_worker_new(void *ctx, uint32_t thread_mode, const char *name, int wakeup, ms_worker **out)
{
    ux_worker_params p;
    ms_worker *w;
    int s;

    if (posix_memalign((void **)&w, 64, sizeof *w) != 0)
        return UX_ERR_NO_MEMORY;
    memset(w, 0, sizeof *w);
    w->efd = -1;
    w->device = -1;
    memset(&p, 0, sizeof p);
    p.field_mask = UX_WORKER_PARAM_THREAD_MODE | UX_WORKER_PARAM_FLAGS;
    p.thread_mode = thread_mode;
    p.flags = UX_WORKER_FLAG_IGNORE_REQUEST_LEAK; /* Go reports leaks */
    if (name != NULL) {
        p.field_mask |= UX_WORKER_PARAM_NAME;
        p.name = name;
    }
    s = ux_ucp_worker_create(ctx, &p, &w->h);
    if (s != UX_OK) {
        free(w);
        return s;
    }
    if (wakeup) {
        int fd = -1;
        s = ux_ucp_worker_get_efd(w->h, &fd);
        if (s != UX_OK) {
            ux_ucp_worker_destroy(w->h);
            free(w);
            return s;
        }
        w->efd = fd;
    }
    *out = w;
    return UX_OK;
}

/* quiesce progresses UCX until it has been idle for a while. Up to 1.13 it aborts the process
 * if a worker is destroyed while the reply to a peer's connection request waits for its
 * socket, which cannot be queried. */
static void quiesce(ms_worker *w)
{
    enum { QUIET_NS = 50000000, LONGEST_NS = 500000000 };
    const struct timespec pause = {0, 50000};
    unsigned major = 0, minor = 0, release = 0;
    int64_t start = ms_now(), last = start, t;

    ux_ucp_get_version(&major, &minor, &release);
    if (major > 1 || minor > 13)
        return;
    if (ms_progress(w) == 0 && w->stats.progress_hits == 0 && w->stats.ep_created == 0)
        return; /* no peer has ever connected to this worker */
    do {
        if (ms_progress(w) != 0)
            last = ms_now();
        else
            nanosleep(&pause, NULL);
        t = ms_now();
    } while (t - last < QUIET_NS && t - start < LONGEST_NS);
}

/* drop receives the small messages that were not received, mostly the last messages of
 * peers: UCX logs a warning for each. It stops at a larger one, whose data may
 * still be at the sender. */
static void drop(ms_worker *w)
{
    enum { SMALL = 1024, MANY = 1 << 20 };
    static const ux_request_param none;
    ux_tag_info info;
    ux_status_ptr r;
    void *m;
    int n;

    for (n = 0; n < MANY; n++) {
        memset(&info, 0, sizeof info);
        if (ux_ucp_tag_probe_nb(w->h, 0, 0, 0, &info) == NULL || info.length > SMALL)
            return;
        m = ux_ucp_tag_probe_nb(w->h, info.sender_tag, UINT64_MAX, 1, &info);
        if (m == NULL)
            return;
        r = ux_ucp_tag_msg_recv_nbx(w->h, NULL, 0, m, &none);
        if (r != NULL && !UX_IS_ERR(r))
            ux_ucp_request_free(r);
    }
}

/* ms_worker_destroy destroys the UCX worker; tags: it may have tag messages. The caller holds
 * the token and never releases it, so that others that still have the struct find it
 * taken. */
void ms_worker_destroy(ms_worker *w, int tags)
{
    ms_event *e, *next;

    quiesce(w);
    if (tags)
        drop(w);
    for (e = w->ev_head; e != NULL; e = next) {
        next = e->next;
        ms_event_free(w, e);
    }
    w->ev_head = w->ev_tail = NULL;
    ms_events_free(w);
    ms_rkeys_free(w);
    ux_ucp_worker_destroy(w->h);
    w->h = NULL;
    ms_am_args_free(w);
    ms_eps_free(w);
}

/* ms_worker_free frees the struct when there are no references to it. */
void ms_worker_free(ms_worker *w) { free(w); }

int ms_worker_query(ms_worker *w, uint32_t *thread_mode, uint64_t *max_am_header)
{
    ux_worker_attr a;
    int s;

    memset(&a, 0, sizeof a);
    a.field_mask = UX_WORKER_ATTR_THREAD_MODE | UX_WORKER_ATTR_MAX_AM_HEADER;
    s = ux_ucp_worker_query(w->h, &a);
    *thread_mode = a.thread_mode;
    *max_am_header = a.max_am_header;
    return s;
}

ms_slot *ms_slots_new(ms_worker *w, uint32_t first_index, uint32_t n)
{
    ms_slot *s;

    if (posix_memalign((void **)&s, 64, n * sizeof *s) != 0)
        return NULL;
    memset(s, 0, n * sizeof *s);
    for (uint32_t i = 0; i < n; i++) {
        s[i].worker = w;
        s[i].index = first_index + i;
        s[i].device = -1;
        s[i].memtype = -1;
    }
    return s;
}

void ms_slots_free(ms_slot *s) { free(s); }

void ms_push_event(ms_worker *w, ms_event *e)
{
    e->next = NULL;
    if (w->ev_tail != NULL)
        w->ev_tail->next = e;
    else
        w->ev_head = e;
    w->ev_tail = e;
}

/* ms_push_done puts a slot on the list of completions that Go delivers. */
void ms_push_done(ms_worker *w, ms_slot *s)
{
    s->next = NULL;
    if (w->done_tail != NULL)
        w->done_tail->next = s;
    else
        w->done_head = s;
    w->done_tail = s;
    w->gathered++;
}

/* ms_complete ends an operation: exactly once for each submit. */
void ms_complete(ms_slot *s, int status)
{
    ms_worker *w = s->worker;

    if (s->state == MS_PENDING)
        w->inflight--;
    if (s->on_ep)
        ms_ep_detach(s);
    if (s->on_rkey)
        ms_rkey_drop(s);
    s->status = status;
    s->req = NULL;
    if (status < 0)
        w->stats.errors++;
    s->state = MS_DONE;
    if (!s->notify)
        return;
    if (s->leader == NULL)
        ms_push_done(w, s);
    else if (--s->leader->left == 0)
        ms_push_done(w, s->leader);
}

/* drain_submissions empties the stack that Go pushes on. The stack is taken whole
 * and reversed, so operations are submitted in the order they were pushed. */
static void drain_submissions(ms_worker *w)
{
    ms_slot *s, *next, *fifo = NULL;

    if (__atomic_load_n(&w->submissions, __ATOMIC_RELAXED) == NULL)
        return;
    for (s = __atomic_exchange_n(&w->submissions, NULL, __ATOMIC_ACQUIRE); s != NULL; s = next) {
        next = s->next;
        s->next = fifo;
        fifo = s;
    }
    for (s = fifo; s != NULL; s = next) {
        next = s->next;
        w->stats.ring_submits++;
        ms_submit(w, s);
    }
}

static inline unsigned turn(ms_worker *w)
{
    unsigned n = ms_progress(w);

    w->stats.progress_calls++;
    drain_submissions(w);
    if (__builtin_expect(w->wait_head != NULL, 0))
        ms_poll_events(w);
    if (__builtin_expect(w->failed != NULL, 0))
        ms_run_failed(w);
    if (__builtin_expect(w->rkeys_dead != NULL, 0))
        ms_rkeys_sweep(w);
    return n;
}

/* Drives in a row that end without progress: small sends complete immediately until the
 * receiver's queue is full, and messages in the other direction must not wait that long. */
enum { MAX_IMMEDIATE = 16 };

/* Messages that a transport passes to UCX in one call of progress (UCX_SYSV_FIFO_MAX_POLL). */
enum { MAX_POLL = 16 };

/* ms_drive is called by the token holder. It submits what is queued, then own (if
 * it was not submitted yet), and progresses until own is done, there is something for
 * Go to deliver, or nothing happened for spin_ns (0: one pass until idle; negative: no progress).
 * A caller that waits for several operations sets gather, and is not woken for each of them.
 *
 * There is no progress if what was submitted completed immediately. Progress would only move
 * messages that have no receive yet from the transport to UCX's queue of unexpected messages,
 * which costs more than a message that finds its receive. */
int ms_drive(ms_worker *w, ms_slot *own, int64_t spin_ns)
{
    int64_t deadline = 0, now = 0;
    unsigned idle = 0;

    w->stats.drives++;
    w->gathered = 0;
    if (__builtin_expect(w->device >= 0, 0))
        ms_set_current(w->device);
    drain_submissions(w);
    if (own != NULL) {
        if (own->state == MS_QUEUED)
            ms_submit(w, own);
        if (own->state == MS_DONE) {
            w->last_spin = -1; /* did not wait */
            return MS_R_OWN | (w->done_head != NULL || w->ev_head != NULL ? MS_R_WORK : 0);
        }
    } else if (spin_ns <= 0 && (w->done_head != NULL ? ++w->immediate % MAX_IMMEDIATE != 0
                                                     : spin_ns < 0 && w->inflight < MAX_POLL)) {
        return w->done_head != NULL || w->ev_head != NULL ? MS_R_WORK : MS_R_TIMEOUT;
    }
    for (;;) {
        unsigned n = turn(w);
        int r = 0;

        if (own != NULL && own->state == MS_DONE)
            r = MS_R_OWN;
        if (w->ev_head != NULL || (w->done_head != NULL && (n == 0 || w->gather <= 1 || w->gathered >= w->gather)))
            r |= MS_R_WORK;
        if (r != 0) {
            w->stats.spins_won++;
            w->activity++;
            w->last_spin = deadline != 0 ? now - (deadline - spin_ns) : 0;
            return r;
        }
        if (n != 0) {
            w->stats.progress_hits++;
            idle = 0;
            continue;
        }
        if (spin_ns <= 0)
            return MS_R_TIMEOUT;
        if ((++idle & 31) == 0) {
            now = ms_now();
            if (deadline == 0)
                deadline = now + spin_ns;
            else if (now > deadline) {
                w->stats.spins_lost++;
                return MS_R_TIMEOUT;
            }
        }
    }
}

/* Attempts of ms_leave to arm. Shared memory refuses while a send waits for space,
 * forever if the peer is stopped; the poller then polls periodically. */
enum { MAX_ARM_BUSY = 16 };

/* ms_leave drains, arms the event descriptor and releases the token. A submitter
 * that failed to take the token has pushed before it tried, so a second check of the stack
 * after the release misses no submission. */
int ms_leave(ms_worker *w)
{
    int busy = 0;

    if (__builtin_expect(w->device >= 0, 0))
        ms_set_current(w->device);
    for (;;) {
        int armed = 0;

        while (turn(w) != 0)
            ;
        drain_submissions(w);
        if (w->done_head != NULL || w->ev_head != NULL)
            return MS_R_WORK;
        if (w->efd >= 0 && w->wait_head == NULL && w->failed == NULL) {
            ux_status s = ux_ucp_worker_arm(w->h);
            if (s == UX_ERR_BUSY) {
                w->stats.arm_busy++;
                if (++busy < MAX_ARM_BUSY)
                    continue;
            } else if (s == UX_OK) {
                armed = 1;
                w->unarmed = 0;
                w->stats.arms++;
            }
        }
        __atomic_store_n(&w->token, 0, __ATOMIC_SEQ_CST);
        if (__atomic_load_n(&w->submissions, __ATOMIC_SEQ_CST) != NULL) {
            uint32_t zero = 0;
            if (__atomic_compare_exchange_n(&w->token, &zero, 1, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
                continue;
        }
        return MS_R_RELEASED | (armed ? 0 : MS_R_NOARM);
    }
}

/* ms_block is the sleep of a dedicated progress thread: it keeps the token, arms,
 * and waits for UCX's descriptor or the wake descriptor that Go writes to. */
int ms_block(ms_worker *w, int timeout_ms)
{
    struct pollfd f[2];
    int n = 0;

    while (turn(w) != 0)
        ;
    if (w->done_head != NULL || w->ev_head != NULL)
        return MS_R_WORK;
    if (w->wait_head != NULL || w->failed != NULL)
        timeout_ms = 0;
    if (w->efd >= 0) {
        ux_status s = ux_ucp_worker_arm(w->h);
        if (s != UX_OK)
            return MS_R_TIMEOUT;
        w->stats.arms++;
        f[n].fd = w->efd;
        f[n++].events = POLLIN;
    } else if (timeout_ms < 0 || timeout_ms > 1) {
        timeout_ms = 1; /* no descriptor to wait for: poll once per millisecond */
    }
    f[n].fd = (int)w->wakefd_plus1 - 1;
    f[n].events = POLLIN;
    f[n++].revents = 0;
    if (poll(f, (nfds_t)n, timeout_ms) > 0 && f[n - 1].revents != 0) {
        uint64_t v;
        ssize_t r = read(f[n - 1].fd, &v, sizeof v);
        (void)r;
    }
    return MS_R_TIMEOUT;
}
