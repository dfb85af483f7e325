/* Submission of slots to UCX, and UCX's completion callbacks. */
#include "shim.h"
#include <string.h>

static inline int is_rma(int op) { return op == MS_OP_PUT || op == MS_OP_GET || op == MS_OP_ATOMIC; }

static void send_cb(void *req, ux_status st, void *user)
{
    ms_slot *s = user;

    if (is_rma(s->op))
        s->rlen = s->len;
    ms_complete(s, st);
    ux_ucp_request_free(req);
}

static void tag_recv_cb(void *req, ux_status st, const ux_tag_info *info, void *user)
{
    ms_slot *s = user;

    /* Two loads: UCX has just stored the fields separately, and one load of both would have to wait until the
     * stores have left the store buffer. */
    s->rtag = *(const volatile uint64_t *)&info->sender_tag;
    s->rlen = *(const volatile size_t *)&info->length;
    ms_complete(s, st);
    ux_ucp_request_free(req);
}

static void stream_recv_cb(void *req, ux_status st, size_t length, void *user)
{
    ms_slot *s = user;

    s->rlen = length;
    ms_complete(s, st);
    ux_ucp_request_free(req);
}

/* attach adds an operation to its endpoint's list, so that the endpoint's failure
 * can end it. */
static void attach(ms_slot *s)
{
    ms_ep *ep = s->ep;

    s->ep_prev = NULL;
    s->ep_next = ep->ops;
    if (ep->ops != NULL)
        ep->ops->ep_prev = s;
    ep->ops = s;
    s->on_ep = 1;
}

void ms_ep_detach(ms_slot *s)
{
    if (s->ep_prev != NULL)
        s->ep_prev->ep_next = s->ep_next;
    else
        s->ep->ops = s->ep_next;
    if (s->ep_next != NULL)
        s->ep_next->ep_prev = s->ep_prev;
    s->ep_prev = s->ep_next = NULL;
    s->on_ep = 0;
}

static int needs_live_ep(int op)
{
    return op != MS_OP_WORKER_FLUSH && op != MS_OP_CALL && op != MS_OP_TAG_MSG_RECV && op != MS_OP_AM_RECV &&
           op != MS_OP_EP_CLOSE;
}

static void cancel_slot(ms_worker *w, ms_slot *s)
{
    if (s->state != MS_PENDING || s->req == NULL)
        return;
    s->flags |= MS_F_CANCELED;
    ux_ucp_request_cancel(w->h, s->req);
}

static inline int is_recv(int op) { return op == MS_OP_TAG_RECV || op == MS_OP_TAG_MSG_RECV || op == MS_OP_AM_RECV; }

/* comes_before reports whether e, which waits for a device, must be submitted before s:
 * operations that are ordered remain so if one of them has to wait. */
static int comes_before(const ms_slot *e, const ms_slot *s)
{
    if (s->op == MS_OP_TAG_RECV)
        return e->op == MS_OP_TAG_RECV; /* receives match in posting order */
    if (is_recv(s->op) || is_recv(e->op) || (s->op == MS_OP_EP_CLOSE && (s->flags & MS_F_FORCE)))
        return 0;
    if (s->op == MS_OP_CALL && !(s->flags & MS_F_ORDERED))
        return 0;
    return e->ep == s->ep || e->ep == NULL || s->ep == NULL; /* without an endpoint: worker flush, fence */
}

static int query_events(const ms_slot *s)
{
    int r = 0;

    if (s->event == NULL)
        return 0;
    if (!(s->flags & MS_F_EVENTS))
        return ms_event_query(s->event);
    for (void *const *e = s->event; r == 0 && *e != NULL; e++)
        r = ms_event_query(*e);
    return r;
}

/* must_wait returns 1 if the slot waits for its device event, or for earlier operations that
 * do; a negative status if the device failed. */
static int must_wait(const ms_worker *w, const ms_slot *s)
{
    for (const ms_slot *e = w->wait_head; e != NULL && e != s; e = e->next)
        if (comes_before(e, s))
            return 1;
    return query_events(s);
}

/* drop_waiting ends the waiting operations of an endpoint, or one slot. */
static void drop_waiting(ms_worker *w, const ms_ep *ep, const ms_slot *only, int status)
{
    for (ms_slot **l = &w->wait_head; *l != NULL;) {
        ms_slot *s = *l;
        if (only != NULL ? s != only : s->ep != ep || s->op == MS_OP_EP_CLOSE) {
            l = &s->next;
            continue;
        }
        *l = s->next;
        s->event = NULL;
        ms_complete(s, status);
    }
}

void ms_cancel(ms_worker *w, ms_slot *s)
{
    if (s->state == MS_WAITING) /* it was never submitted */
        drop_waiting(w, NULL, s, UX_ERR_CANCELED);
    else
        cancel_slot(w, s);
}

/* cancel_tied ends what UCX does not end with an endpoint: receives, which belong to the
 * worker (canceling one completes at most that one, so next remains valid), and operations
 * that were not submitted yet. */
static void cancel_tied(ms_worker *w, ms_ep *ep)
{
    ms_slot *s, *next;

    for (s = ep->ops; s != NULL; s = next) {
        next = s->ep_next;
        if (is_recv(s->op))
            cancel_slot(w, s);
    }
    drop_waiting(w, ep, NULL, ep->err != 0 ? ep->err : UX_ERR_CANCELED);
}

/* close_unwaited force-closes if the endpoint allows it, or lets UCX close in the
 * background: without error handling the close may never complete. */
static void close_unwaited(ms_ep *ep)
{
    ux_request_param p;
    void *r;

    memset(&p, 0, sizeof p);
    p.op_attr_mask = UX_OP_FLAGS;
    p.flags = ep->peer_errors ? UX_EP_CLOSE_FORCE : 0;
    ep->closed = 1;
    r = ux_ucp_ep_close_nbx(ep->h, &p);
    if (r != NULL && !UX_IS_ERR(r))
        ux_ucp_request_free(r); /* immediately: a worker must not be destroyed while a request is held */
    ep->worker->stats.ep_closed++;
}

/* finish_forced_close progresses UCX after a forced close, until it has removed transports,
 * disconnected from the peer and canceled operations that waited for it; no event wakes a
 * sleeper for that. The bound is for endless traffic. */
static void finish_forced_close(ms_worker *w)
{
    for (int i = 0; i < 64 && ms_progress(w) != 0; i++)
        ;
}

/* A flush must end before its endpoint is force-closed: UCX may have scheduled the
 * flush's next step, does not unschedule it, and it would access the endpoint in
 * freed memory. On a failed endpoint it ends by itself within a few turns; otherwise
 * it gets this time, after which it is known to wait for the peer and is not scheduled. */
enum { FLUSH_GRACE_NS = 100000000 };

static int has_pending_flush(const ms_ep *ep)
{
    for (const ms_slot *s = ep->ops; s != NULL; s = s->ep_next)
        if (s->op == MS_OP_EP_FLUSH)
            return ms_now() - ep->failed_at < FLUSH_GRACE_NS;
    return 0;
}

/* ms_run_failed force-closes endpoints that failed since the last turn. It runs
 * outside UCX's callbacks, where closing is not allowed. */
void ms_run_failed(ms_worker *w)
{
    ms_ep *ep, *later = NULL;
    int closed = 0;

    while ((ep = w->failed) != NULL) {
        w->failed = ep->next_failed;
        ep->next_failed = NULL;
        if (!ep->closed && !ep->borrowed && has_pending_flush(ep)) {
            cancel_tied(w, ep);
            ep->next_failed = later;
            later = ep;
            continue;
        }
        ep->failing = 0;
        if (!ep->closed && !ep->borrowed) {
            close_unwaited(ep);
        }
        cancel_tied(w, ep);
        closed = 1;
    }
    w->failed = later;
    if (closed)
        finish_forced_close(w);
}

/* account records what an operation moves; called once per submit. */
static inline void account(ms_worker *w, ms_slot *s)
{
    w->stats.ops[s->op]++;
    if ((s->flags & MS_F_IOV) == 0)
        w->stats.bytes[s->op] += s->len;
    w->activity++;
}

/* stale_stream_status: since 1.16 UCX returns, for a stream receive that completes
 * immediately from several received pieces, the status that an earlier use of the request
 * left: any byte, which may even look like a request. These releases set the length
 * only of successful receives. */
static int stale_stream_status(void)
{
    unsigned major, minor, release;

    ux_ucp_get_version(&major, &minor, &release);
    return major > 1 || minor >= 16;
}

/* submit_now turns a slot into a UCX request. It always causes exactly one ms_complete. */
static void submit_now(ms_worker *w, ms_slot *s)
{
    ux_request_param p;
    ms_ep *ep = s->ep;
    void *r;
    uint64_t count = s->len;
    size_t stream_len = 0;

    account(w, s);
    if (s->op == MS_OP_CALL) {
        s->state = MS_SUBMITTING;
        s->status = 0;
        s->fn(w, s);
        ms_complete(s, s->status);
        return;
    }
    if (ep != NULL && (ep->closed || ep->err != 0) && s->op == MS_OP_TAG_RECV) {
        /* Data that arrived before the endpoint ended can still be received. */
        ux_tag_info info;
        if (ux_ucp_tag_probe_nb(w->h, s->tag, s->mask, 0, &info) != NULL)
            s->ep = ep = NULL;
    }
    if (ep != NULL && needs_live_ep(s->op) && (ep->closed || ep->err != 0)) {
        ms_complete(s, ep->err != 0 ? ep->err : UX_ERR_NOT_CONNECTED);
        return;
    }
    if (is_rma(s->op) && !ms_rkey_take(s)) {
        ms_complete(s, UX_ERR_CANCELED);
        return;
    }
    if (s->device >= 0 && s->device != w->device) {
        w->device = s->device;
        ms_set_current(w->device);
    }
    p.op_attr_mask = UX_OP_CALLBACK | UX_OP_USER_DATA;
    p.user_data = s;
    p.flags = 0;
    if (s->memtype >= 0) {
        p.op_attr_mask |= UX_OP_MEMORY_TYPE;
        p.memory_type = (uint32_t)s->memtype;
    }
    if (s->memh != NULL) {
        p.op_attr_mask |= UX_OP_MEMH;
        p.memh = s->memh;
    }
    if (s->flags & MS_F_IOV) {
        p.op_attr_mask |= UX_OP_DATATYPE;
        p.datatype = UX_DT_IOV;
    }
    if (s->flags & MS_F_MULTI_SEND)
        p.op_attr_mask |= UX_OP_MULTI_SEND;
    s->state = MS_SUBMITTING;
    p.cb.send = send_cb;
    switch (s->op) {
    case MS_OP_TAG_SEND:
        r = ux_ucp_tag_send_nbx(ep->h, s->buf, count, s->tag, &p);
        break;
    case MS_OP_TAG_SEND_SYNC:
        r = ux_ucp_tag_send_sync_nbx(ep->h, s->buf, count, s->tag, &p);
        break;
    case MS_OP_TAG_RECV:
        /* Only a callback reports tag and length in every release. */
        p.op_attr_mask |= UX_OP_NO_IMM_CMPL;
        p.cb.recv = tag_recv_cb;
        r = ux_ucp_tag_recv_nbx(w->h, s->buf, count, s->tag, s->mask, &p);
        break;
    case MS_OP_TAG_MSG_RECV:
        p.op_attr_mask |= UX_OP_NO_IMM_CMPL;
        p.cb.recv = tag_recv_cb;
        r = ux_ucp_tag_msg_recv_nbx(w->h, s->buf, count, s->hdr, &p);
        break;
    case MS_OP_STREAM_SEND:
        r = ux_ucp_stream_send_nbx(ep->h, s->buf, count, &p);
        break;
    case MS_OP_STREAM_RECV:
        p.cb.recv_stream = stream_recv_cb;
        if (s->flags & MS_F_WAITALL) {
            p.op_attr_mask |= UX_OP_FLAGS;
            p.flags = UX_STREAM_RECV_WAITALL;
        }
        stream_len = SIZE_MAX;
        r = ux_ucp_stream_recv_nbx(ep->h, s->buf, count, &stream_len, &p);
        if (stream_len != SIZE_MAX && stale_stream_status())
            r = NULL;
        if (r == NULL)
            s->rlen = stream_len;
        break;
    case MS_OP_AM_SEND:
        p.op_attr_mask |= UX_OP_FLAGS;
        p.flags = (s->flags & MS_F_REPLY ? UX_AM_SEND_REPLY : 0) | (s->flags & MS_F_EAGER ? UX_AM_SEND_EAGER : 0) |
                  (s->flags & MS_F_RNDV ? UX_AM_SEND_RNDV : 0);
        r = ux_ucp_am_send_nbx(ep->h, (unsigned)s->tag, s->hdr, s->hdrlen, s->buf, count, &p);
        break;
    case MS_OP_AM_RECV:
        p.cb.recv_am = stream_recv_cb; /* same layout: a length */
        r = ux_ucp_am_recv_data_nbx(w->h, s->hdr, s->buf, count, &p);
        if (r == NULL)
            s->rlen = count;
        break;
    case MS_OP_PUT:
        r = ux_ucp_put_nbx(ep->h, s->buf, count, s->tag, ((ms_rkey *)s->mask)->h, &p);
        break;
    case MS_OP_GET:
        r = ux_ucp_get_nbx(ep->h, s->buf, count, s->tag, ((ms_rkey *)s->mask)->h, &p);
        break;
    case MS_OP_ATOMIC:
        /* arg[0] opcode | fetch<<8 | size<<16, arg[1] operand, arg[2] result (compare-and-swap: new value in) */
        p.op_attr_mask = UX_OP_CALLBACK | UX_OP_USER_DATA | UX_OP_DATATYPE | UX_OP_MEMORY_TYPE;
        p.memory_type = 0;
        p.datatype = UX_DT_CONTIG((s->arg[0] >> 16) & 0xff);
        if (s->arg[0] & 0x100) {
            p.op_attr_mask |= UX_OP_REPLY_BUFFER;
            p.reply_buffer = &s->arg[2];
        } else {
            /* UCX would return OK immediately and continue to use operand and key. */
            p.op_attr_mask |= UX_OP_NO_IMM_CMPL;
        }
        r = ux_ucp_atomic_op_nbx(ep->h, (int)(s->arg[0] & 0xff), &s->arg[1], 1, s->tag, ((ms_rkey *)s->mask)->h, &p);
        break;
    case MS_OP_EP_FLUSH:
        p.op_attr_mask = UX_OP_CALLBACK | UX_OP_USER_DATA;
        r = ux_ucp_ep_flush_nbx(ep->h, &p);
        break;
    case MS_OP_WORKER_FLUSH:
        p.op_attr_mask = UX_OP_CALLBACK | UX_OP_USER_DATA;
        r = ux_ucp_worker_flush_nbx(w->h, &p);
        break;
    case MS_OP_EP_CLOSE:
        if (ep->closed || ep->borrowed) {
            ep->closed = 1;
            r = NULL;
            break;
        }
        if (s->flags & MS_F_FORCE) { /* now, or when no flush is pending */
            ms_ep_fail(ep, UX_ERR_NOT_CONNECTED);
            ms_run_failed(w);
            r = NULL;
            break;
        }
        ep->closed = 1;
        p.op_attr_mask = UX_OP_CALLBACK | UX_OP_USER_DATA;
        w->stats.ep_closed++;
        r = ux_ucp_ep_close_nbx(ep->h, &p);
        if (s->state != MS_DONE)
            cancel_tied(w, ep);
        break;
    default:
        r = (void *)(intptr_t)UX_ERR_INVALID_PARAM;
    }
    if (s->state == MS_DONE)
        return; /* the callback ran inside the call; r is freed */
    if (r == NULL) {
        if (is_rma(s->op))
            s->rlen = count;
        ms_complete(s, UX_OK);
    } else if (UX_IS_ERR(r)) {
        ms_complete(s, UX_PTR_STATUS(r));
    } else {
        s->req = r;
        s->state = MS_PENDING;
        if (ep != NULL && s->op != MS_OP_EP_CLOSE) /* a close does not end itself */
            attach(s);
        w->inflight++;
        w->unarmed = 1;
    }
}

/* ms_submit submits a slot, or defers it until its device memory is ready. */
void ms_submit(ms_worker *w, ms_slot *s)
{
    int r;

    if (__builtin_expect(s->event == NULL && w->wait_head == NULL, 1)) {
        submit_now(w, s);
        return;
    }
    if (s->event != NULL && s->device >= 0 && s->device != w->device) {
        w->device = s->device;
        ms_set_current(w->device);
    }
    if ((r = must_wait(w, s)) == 1) {
        ms_slot **l = &w->wait_head;
        while (*l != NULL)
            l = &(*l)->next;
        s->next = NULL;
        *l = s;
        s->state = MS_WAITING;
        return;
    }
    s->event = NULL;
    if (r < 0)
        ms_complete(s, UX_ERR_IO_ERROR);
    else
        submit_now(w, s);
}

/* ms_poll_events submits slots that need not wait any longer, in order. */
void ms_poll_events(ms_worker *w)
{
    ms_slot **l = &w->wait_head;

    while (*l != NULL) {
        ms_slot *s = *l;
        int r = must_wait(w, s);
        if (r == 1) {
            l = &s->next;
            continue;
        }
        *l = s->next;
        s->event = NULL;
        if (r < 0)
            ms_complete(s, UX_ERR_IO_ERROR);
        else
            submit_now(w, s);
        l = &w->wait_head; /* submitting may have changed the list */
    }
}

/* ms_ep_fail marks an endpoint as failed; ms_run_failed closes it. */
void ms_ep_fail(ms_ep *ep, int status)
{
    ms_worker *w = ep->worker;

    if (ep->err == 0) {
        ep->err = status != 0 ? status : UX_ERR_CONNECTION_RESET;
        ep->failed_at = ms_now();
    }
    if (ep->failing)
        return;
    ep->failing = 1;
    ep->next_failed = w->failed;
    w->failed = ep;
}
