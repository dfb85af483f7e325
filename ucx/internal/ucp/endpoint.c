/* Endpoints and the rare calls that run under the token. */
#define _GNU_SOURCE
#include "shim.h"
#include <stdlib.h>
#include <string.h>

static void on_error(void *arg, void *h, ux_status st)
{
    ms_ep *ep = arg;
    ms_event *e;

    (void)h;
    ep->worker->stats.ep_errors++;
    if (ep->err != 0 || ep->closed) {
        if (ep->err == 0)
            ep->err = st;
        if (!ep->closed)
            ms_ep_fail(ep, st);
        return;
    }
    ms_ep_fail(ep, st);
    e = calloc(1, sizeof *e);
    if (e == NULL)
        return; /* the endpoint's operations still fail; only the early notification is lost */
    e->type = MS_EV_EP_ERROR;
    e->status = st;
    e->id = ep->id;
    ms_push_event(ep->worker, e);
}

/* bucket returns the list of endpoints whose handles have the same hash. */
static ms_ep **bucket(ms_worker *w, void *h)
{
    uintptr_t x = (uintptr_t)h >> 5;

    return &w->eps[(x ^ x >> 8 ^ x >> 16) % MS_EP_BUCKETS];
}

static void enter(ms_ep *ep)
{
    ms_ep **head = bucket(ep->worker, ep->h);

    ep->all_prev = NULL;
    ep->all_next = *head;
    if (*head != NULL)
        (*head)->all_prev = ep;
    *head = ep;
}

static void withdraw(ms_ep *ep)
{
    if (ep->all_prev != NULL)
        ep->all_prev->all_next = ep->all_next;
    else
        *bucket(ep->worker, ep->h) = ep->all_next;
    if (ep->all_next != NULL)
        ep->all_next->all_prev = ep->all_prev;
}

/* ep_create: by arg[0]: 0 buf = worker address; 1 buf/len = sockaddr, hdr/hdrlen =
 * local sockaddr or none; 2 len = listener number, mask = number of the connection
 * request. tag = Go's endpoint number; arg[1]&1 peer error mode; rtag out = ms_ep,
 * rlen out = ucp_ep_h, by which reply endpoints are recognized. */
static void call_ep_create(ms_worker *w, ms_slot *s)
{
    ux_ep_params p;
    ms_ep *ep = calloc(1, sizeof *ep);

    if (ep == NULL) {
        s->status = UX_ERR_NO_MEMORY;
        return;
    }
    ep->worker = w;
    ep->id = s->tag;
    memset(&p, 0, sizeof p);
    p.field_mask = UX_EP_PARAM_ERR_MODE | UX_EP_PARAM_ERR_HANDLER;
    ep->peer_errors = s->arg[1] & 1;
    p.err_mode = ep->peer_errors ? UX_ERR_MODE_PEER : UX_ERR_MODE_NONE;
    p.err_handler.cb = on_error;
    p.err_handler.arg = ep;
    switch (s->arg[0]) {
    case 0:
        p.field_mask |= UX_EP_PARAM_REMOTE_ADDRESS;
        p.address = s->buf;
        break;
    case 1:
        p.field_mask |= UX_EP_PARAM_SOCK_ADDR | UX_EP_PARAM_FLAGS;
        p.flags = UX_EP_FLAG_CLIENT_SERVER;
        p.sockaddr.addr = s->buf;
        p.sockaddr.addrlen = (socklen_t)s->len;
        if (s->hdrlen != 0) {
            p.field_mask |= UX_EP_PARAM_LOCAL_SOCK_ADDR;
            p.local_sockaddr.addr = s->hdr;
            p.local_sockaddr.addrlen = (socklen_t)s->hdrlen;
        }
        break;
    default:
        p.field_mask |= UX_EP_PARAM_CONN_REQUEST;
        p.conn_request = ms_conn_take(w, s->len, s->mask);
        if (p.conn_request == NULL) { /* rejected when the listener was closed */
            s->status = UX_ERR_NOT_CONNECTED;
            free(ep);
            return;
        }
    }
    s->status = ux_ucp_ep_create(w->h, &p, &ep->h);
    if (s->status != UX_OK) {
        free(ep);
        return;
    }
    enter(ep);
    w->stats.ep_created++;
    s->rtag = (uint64_t)(uintptr_t)ep;
    s->rlen = (uint64_t)(uintptr_t)ep->h;
    ms_mark_cloexec();
}

/* ms_ep_borrow wraps a reply endpoint that UCX owns. */
ms_ep *ms_ep_borrow(ms_worker *w, void *h)
{
    ms_ep *ep = calloc(1, sizeof *ep);

    if (ep != NULL) {
        ep->worker = w;
        ep->h = h;
        ep->borrowed = 1;
        enter(ep);
    }
    return ep;
}

/* ms_ep_id returns Go's number of the open endpoint with UCX's handle h, 0 if Go did not
 * create it. UCX reuses handles, so closed endpoints do not count. */
uint64_t ms_ep_id(ms_worker *w, void *h)
{
    for (ms_ep *ep = *bucket(w, h); ep != NULL; ep = ep->all_next)
        if (ep->h == h && !ep->closed && !ep->borrowed)
            return ep->id;
    return 0;
}

/* ms_eps_free frees endpoints that Go did not free, after the UCX worker was destroyed. */
void ms_eps_free(ms_worker *w)
{
    for (int i = 0; i < MS_EP_BUCKETS; i++) {
        ms_ep *ep;

        while ((ep = w->eps[i]) != NULL) {
            w->eps[i] = ep->all_next;
            free(ep);
        }
    }
}

/* ep_fail: buf = ms_ep, arg[0] = status. Used when the death of the peer or an abort is
 * known from another source. The endpoint is force-closed before the call returns. */
static void call_ep_fail(ms_worker *w, ms_slot *s)
{
    ms_ep *ep = s->buf;

    if (ep->closed)
        return;
    ms_ep_fail(ep, (int)(int64_t)s->arg[0]);
    ms_run_failed(w);
}

/* ep_unsent: buf = ms_ep; rlen out = operations on it that still need the peer: all except
 * receives, which may wait forever, and flushes. */
static void call_ep_unsent(ms_worker *w, ms_slot *s)
{
    (void)w;
    s->rlen = 0;
    for (ms_slot *o = ((ms_ep *)s->buf)->ops; o != NULL; o = o->ep_next) {
        switch (o->op) {
        case MS_OP_TAG_SEND:
        case MS_OP_TAG_SEND_SYNC:
        case MS_OP_STREAM_SEND:
        case MS_OP_AM_SEND:
        case MS_OP_PUT:
        case MS_OP_GET:
        case MS_OP_ATOMIC:
            s->rlen++;
        }
    }
}

/* ep_free: buf = ms_ep that was closed and has no references in Go. */
static void call_ep_free(ms_worker *w, ms_slot *s)
{
    ms_ep *ep = s->buf;
    ms_slot *o, *next;
    ms_ep **l;

    for (o = ep->ops; o != NULL; o = next) { /* abandoned operations outlive the endpoint */
        next = o->ep_next;
        o->ep_prev = o->ep_next = NULL;
        o->on_ep = 0;
        o->ep = NULL;
    }
    for (l = &w->failed; *l != NULL; l = &(*l)->next_failed) {
        if (*l == ep) {
            *l = ep->next_failed;
            break;
        }
    }
    withdraw(ep);
    free(ep);
}

/* ep_query: buf = ms_ep, hdr = char[] of hdrlen for "transport/device\n" lines,
 * inl receives local then remote sockaddr_storage; rlen = number of transports. */
static void call_ep_query(ms_worker *w, ms_slot *s)
{
    enum { MAX = 64 };
    ms_ep *ep = s->buf;
    ux_ep_attr a;
    ux_transport_entry t[MAX];
    char *out = s->hdr;
    size_t room = s->hdrlen, used = 0;

    (void)w;
    s->rlen = 0;
    memset(s->inl, 0, 256);
    if (out != NULL && room > 0)
        out[0] = 0;
    if (ep->closed) {
        s->status = UX_ERR_NOT_CONNECTED;
        return;
    }
    memset(&a, 0, sizeof a);
    a.field_mask = UX_EP_ATTR_LOCAL_SOCKADDR | UX_EP_ATTR_REMOTE_SOCKADDR;
    if (ux_ucp_ep_query(ep->h, &a) == UX_OK) { /* fails for endpoints without a socket address */
        memcpy(s->inl, &a.local_sockaddr, 128);
        memcpy(s->inl + 128, &a.remote_sockaddr, 128);
    }
    memset(&a, 0, sizeof a);
    a.field_mask = UX_EP_ATTR_TRANSPORTS;
    a.transports.entries = t;
    a.transports.num_entries = MAX;
    a.transports.entry_size = sizeof t[0];
    s->status = ux_ucp_ep_query(ep->h, &a);
    if (s->status != UX_OK || a.transports.num_entries > MAX)
        return;
    /* Libraries before 1.14 ignore the field and leave num_entries unchanged. */
    if (s->arg[0] == 0)
        return;
    for (unsigned i = 0; i < a.transports.num_entries && used < room; i++) {
        int n = snprintf(out + used, room - used, "%s/%s\n", t[i].transport_name, t[i].device_name);
        if (n < 0)
            break;
        used += (size_t)n;
        s->rlen++;
    }
}

/* Text dumps: buf = handle (0: that of the worker), rtag out = malloc'd text. */
static void call_ep_text(ms_worker *w, ms_slot *s)
{
    ms_ep *ep = s->buf;
    char *text = NULL;
    size_t n = 0;
    FILE *f;

    (void)w;
    if (ep->closed) {
        s->status = UX_ERR_NOT_CONNECTED;
        return;
    }
    if ((f = open_memstream(&text, &n)) == NULL) {
        s->status = UX_ERR_NO_MEMORY;
        return;
    }
    ux_ucp_ep_print_info(ep->h, f);
    fclose(f);
    s->rtag = (uint64_t)(uintptr_t)text;
    s->rlen = n;
}

static void call_worker_text(ms_worker *w, ms_slot *s)
{
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);

    if (f == NULL) {
        s->status = UX_ERR_NO_MEMORY;
        return;
    }
    ux_ucp_worker_print_info(w->h, f);
    fclose(f);
    s->rtag = (uint64_t)(uintptr_t)text;
    s->rlen = n;
}

/* worker_address: hdr = bytes of hdrlen, arg[0] = 1 for network devices only (no shared
 * memory); rlen out = length (also when too long). */
static void call_worker_address(ms_worker *w, ms_slot *s)
{
    ux_worker_attr a;

    memset(&a, 0, sizeof a);
    a.field_mask = UX_WORKER_ATTR_ADDRESS;
    if (s->arg[0] != 0) {
        a.field_mask |= UX_WORKER_ATTR_ADDRESS_FLAGS;
        a.address_flags = UX_WORKER_ADDRESS_NET_ONLY;
    }
    s->status = ux_ucp_worker_query(w->h, &a);
    if (s->status != UX_OK)
        return;
    s->rlen = a.address_length;
    if (a.address_length <= s->hdrlen)
        memcpy(s->hdr, a.address, a.address_length);
    ux_ucp_worker_release_address(w->h, a.address);
}

static void call_fence(ms_worker *w, ms_slot *s) { s->status = ux_ucp_worker_fence(w->h); }

/* cancel: buf = slot to cancel, arg[0] = its serial at that time. */
static void call_cancel(ms_worker *w, ms_slot *s)
{
    ms_slot *o = s->buf;

    if (o->serial == (uint32_t)s->arg[0])
        ms_cancel(w, o);
}

/* probe: tag, mask, arg[0] remove; rtag, rlen out; hdr out = message or NULL. */
static void call_probe(ms_worker *w, ms_slot *s)
{
    ux_tag_info info = {0, 0};

    s->hdr = ux_ucp_tag_probe_nb(w->h, s->tag, s->mask, s->arg[0] != 0, &info);
    s->rtag = info.sender_tag;
    s->rlen = info.length;
}

/* request_text: buf = slot of the request, arg[0] = its serial; hdr/hdrlen = text buffer. */
static void call_request_text(ms_worker *w, ms_slot *s)
{
    ms_slot *o = s->buf;
    ux_request_attr a;

    (void)w;
    if (o->serial != (uint32_t)s->arg[0] || o->state != MS_PENDING || o->req == NULL) {
        s->status = UX_ERR_NO_MESSAGE;
        return;
    }
    memset(&a, 0, sizeof a);
    a.field_mask = UX_REQ_ATTR_INFO_STRING | UX_REQ_ATTR_INFO_STRING_SIZE;
    a.debug_string = s->hdr;
    a.debug_string_size = s->hdrlen;
    s->status = ux_ucp_request_query(o->req, &a);
}

/* ungroup: hdr = slots of a batch, the leader first, hdrlen = their number, arg[0] = serial of the
 * leader. From now on each is delivered alone: arg[1] = 1. Nothing changes if they were delivered, or are
 * about to be. */
static void call_ungroup(ms_worker *w, ms_slot *s)
{
    ms_slot **group = s->hdr;

    if (group[0]->serial != (uint32_t)s->arg[0] || group[0]->leader == NULL || group[0]->left == 0)
        return;
    s->arg[1] = 1;
    for (uint64_t i = 0; i < s->hdrlen; i++) {
        group[i]->leader = NULL;
        if (group[i]->state == MS_DONE)
            ms_push_done(w, group[i]);
    }
}

/* perf: buf = ms_ep, len = message size; arg[0] out = seconds as double bits. */
static void call_perf(ms_worker *w, ms_slot *s)
{
    ms_ep *ep = s->buf;
    ux_perf_param p = {1, s->len};
    ux_perf_attr a = {1, 0};

    (void)w;
    if (ep->closed) {
        s->status = UX_ERR_NOT_CONNECTED;
        return;
    }
    if (ux_ucp_ep_evaluate_perf == NULL) {
        s->status = UX_ERR_UNSUPPORTED;
        return;
    }
    s->status = ux_ucp_ep_evaluate_perf(ep->h, &p, &a);
    memcpy(&s->arg[0], &a.estimated_time, 8);
}

void ms_call_am_handler(ms_worker *, ms_slot *);
void ms_call_am_release(ms_worker *, ms_slot *);
void ms_call_rkey_unpack(ms_worker *, ms_slot *);
void ms_call_rkey_destroy(ms_worker *, ms_slot *);
void ms_call_listen(ms_worker *, ms_slot *);
void ms_call_conn_reject(ms_worker *, ms_slot *);
void ms_call_listener_close(ms_worker *, ms_slot *);

/* In the order of the Call constants in layout.go. */
static const ms_call calls[] = {
    call_ep_create, call_ep_fail, call_ep_free, call_ep_query, call_ep_text, call_worker_text,
    call_worker_address, call_fence, call_cancel, call_probe, ms_call_rkey_unpack, ms_call_rkey_destroy,
    ms_call_listen, ms_call_conn_reject, ms_call_listener_close, call_request_text, call_perf,
    ms_call_am_handler, ms_call_am_release, call_ep_unsent, call_ungroup,
};

ms_call ms_call_by_number(int n) { return calls[n]; }
