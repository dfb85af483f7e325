/* Arrival of active messages: they are queued here and handled in Go after the drain. */
#include "shim.h"
#include <stdlib.h>
#include <string.h>

/* Above this size, data that UCX allows to keep is not copied. */
enum { LEND_ABOVE = 2048 };

/* Bytes of header and data of an event that is used again. */
enum { SPARE_BYTES = 256 };

/* Bytes that a rendezvous descriptor counts against the limit of queued bytes. */
enum { RNDV_COST = 512 };

typedef struct ms_am_arg {
    struct ms_am_arg *next;
    ms_worker *worker;
    uint32_t id;
} am_arg;

/* new_event returns an event with room for n bytes, from the spare ones where it fits. */
static ms_event *new_event(ms_worker *w, size_t n)
{
    ms_event *e = w->ev_spare;
    int spare = n <= SPARE_BYTES;

    if (spare && e != NULL) {
        w->ev_spare = e->next;
        w->ev_spares--;
    } else if ((e = malloc(sizeof *e + (spare ? SPARE_BYTES : n))) == NULL) {
        return NULL;
    }
    memset(e, 0, offsetof(ms_event, addr));
    e->spare = spare;
    return e;
}

static ux_status on_am(void *arg, const void *header, size_t hlen, void *data, size_t len, const ux_am_recv_param *p)
{
    am_arg *a = arg;
    ms_worker *w = a->worker;
    int rndv = (p->recv_attr & UX_AM_RECV_FLAG_RNDV) != 0;
    int lend = !rndv && (p->recv_attr & UX_AM_RECV_FLAG_DATA) != 0 && len > LEND_ABOVE;
    size_t copy = rndv || lend ? 0 : len;
    size_t cost = hlen + (rndv ? RNDV_COST : len);
    int over = w->am_limit != 0 && w->am_queued + cost > w->am_limit;
    ms_event *e = over ? NULL : new_event(w, hlen + copy);

    w->stats.am_received++;
    w->stats.am_bytes += len;
    if (e == NULL) {
        /* Nothing is lost silently: Go is notified and fails the sender's endpoint. */
        w->stats.am_dropped++;
        if ((e = calloc(1, sizeof *e)) != NULL) {
            e->type = MS_EV_AM_OVERFLOW;
            e->status = UX_ERR_NO_MEMORY;
            e->id = a->id;
            e->len = len;
            e->reply_ep = p->recv_attr & UX_AM_RECV_REPLY_EP ? p->reply_ep : NULL;
            ms_push_event(w, e);
        }
        return UX_OK;
    }
    e->type = MS_EV_AM;
    e->id = a->id;
    e->len = len;
    e->hdr = (uint8_t *)(e + 1);
    e->hdrlen = (uint32_t)hlen;
    e->reply_ep = p->recv_attr & UX_AM_RECV_REPLY_EP ? p->reply_ep : NULL;
    if (hlen != 0)
        memcpy(e->hdr, header, hlen);
    if (rndv) {
        e->am_kind = MS_AM_RNDV;
        e->ptr = data;
    } else if (lend) {
        e->am_kind = MS_AM_DESC;
        e->ptr = data;
    } else {
        e->am_kind = MS_AM_COPY;
        e->ptr = e->hdr + hlen;
        if (len != 0)
            memcpy(e->ptr, data, len);
    }
    w->am_queued += cost;
    ms_push_event(w, e);
    return rndv || lend ? UX_INPROGRESS : UX_OK;
}

/* ms_event_free frees an event and the UCX memory that it still holds. Go does the same for a
 * small message without a call. */
void ms_event_free(ms_worker *w, ms_event *e)
{
    if (e->type == MS_EV_AM) {
        w->am_queued -= e->hdrlen + (e->am_kind == MS_AM_RNDV ? RNDV_COST : e->len);
        if (e->ptr != NULL && e->am_kind != MS_AM_COPY)
            ux_ucp_am_data_release(w->h, e->ptr);
    }
    if (e->spare && w->ev_spares < MS_SPARE_EVENTS) {
        e->next = w->ev_spare;
        w->ev_spare = e;
        w->ev_spares++;
        return;
    }
    free(e);
}

void ms_events_free(ms_worker *w)
{
    while (w->ev_spare != NULL) {
        ms_event *e = w->ev_spare;
        w->ev_spare = e->next;
        free(e);
    }
    w->ev_spares = 0;
}

/* am_handler: tag = id, arg[0] = 1 set, 0 clear. */
void ms_call_am_handler(ms_worker *w, ms_slot *s)
{
    ux_am_handler_param p;
    am_arg *a = NULL;

    memset(&p, 0, sizeof p);
    p.field_mask = UX_AM_HANDLER_ID | UX_AM_HANDLER_FLAGS | UX_AM_HANDLER_CB | UX_AM_HANDLER_ARG;
    p.id = (unsigned)s->tag;
    p.flags = UX_AM_FLAG_WHOLE_MSG;
    if (s->arg[0] != 0) {
        if ((a = malloc(sizeof *a)) == NULL) {
            s->status = UX_ERR_NO_MEMORY;
            return;
        }
        a->next = w->am_args; /* freed with the worker */
        w->am_args = a;
        a->worker = w;
        a->id = (uint32_t)s->tag;
        p.cb = on_am;
        p.arg = a;
    }
    s->status = ux_ucp_worker_set_am_recv_handler(w->h, &p);
}

/* ms_am_shut_ids registers every id with UCX, without a receiver. Libraries
 * before 1.21 look up the id of an arriving message without checking it (and before
 * 1.17 leave the entries between known ids uninitialized), so that an unknown id, or
 * one that is not open yet, could crash the process. */
int ms_am_shut_ids(ms_worker *w)
{
    ux_am_handler_param p;
    int s = UX_OK;

    memset(&p, 0, sizeof p);
    p.field_mask = UX_AM_HANDLER_ID | UX_AM_HANDLER_FLAGS | UX_AM_HANDLER_CB;
    for (unsigned id = UINT16_MAX + 1u; id-- > 0 && s == UX_OK;) { /* highest first: one allocation */
        p.id = id;
        s = ux_ucp_worker_set_am_recv_handler(w->h, &p);
    }
    return s;
}

void ms_am_args_free(ms_worker *w)
{
    while (w->am_args != NULL) {
        am_arg *a = w->am_args;
        w->am_args = a->next;
        free(a);
    }
}

/* am_release: buf = event whose message is no longer wanted. */
void ms_call_am_release(ms_worker *w, ms_slot *s) { ms_event_free(w, s->buf); }
