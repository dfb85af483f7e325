/* UCX listeners and their undecided connection requests. Go refers to both by
 * number, so that those that were closed or decided in the meantime are missing, not dangling. */
#include "shim.h"
#include <stdlib.h>
#include <string.h>

typedef struct conn {
    struct conn *next;
    void *h;
    uint64_t number;
} conn;

typedef struct ms_listener {
    struct ms_listener *next;
    ms_worker *worker;
    uint64_t id, last; /* last: number of the newest request */
    void *h;
    uint32_t backlog, pending;
    conn *conns; /* neither accepted nor rejected */
} ms_listener;

static void on_connect(void *req, void *arg)
{
    ms_listener *l = arg;
    ux_conn_request_attr a;
    ms_event *e = calloc(1, sizeof *e);
    conn *c = malloc(sizeof *c);

    if (l->pending >= l->backlog || e == NULL || c == NULL) {
        free(e);
        free(c);
        ux_ucp_listener_reject(l->h, req);
        return;
    }
    c->h = req;
    c->number = ++l->last;
    c->next = l->conns;
    l->conns = c;
    l->pending++;
    memset(&a, 0, sizeof a);
    a.field_mask = UX_CONN_REQ_ATTR_CLIENT_ADDR;
    if (ux_ucp_conn_request_query(req, &a) == UX_OK) {
        e->addr = a.client_address;
        e->addrlen = sizeof a.client_address;
    }
    e->type = MS_EV_CONN_REQUEST;
    e->id = l->id;
    e->len = c->number;
    ms_push_event(l->worker, e);
}

static ms_listener **find(ms_worker *w, uint64_t id)
{
    ms_listener **l = &w->listeners;

    while (*l != NULL && (*l)->id != id)
        l = &(*l)->next;
    return l;
}

static void *take(ms_listener *l, uint64_t number)
{
    for (conn **c = &l->conns; *c != NULL; c = &(*c)->next) {
        if ((*c)->number == number) {
            conn *gone = *c;
            void *h = gone->h;

            *c = gone->next;
            free(gone);
            l->pending--;
            return h;
        }
    }
    return NULL;
}

/* ms_conn_take transfers an undecided connection request to the caller, once. */
void *ms_conn_take(ms_worker *w, uint64_t listener, uint64_t number)
{
    ms_listener *l = *find(w, listener);

    return l != NULL ? take(l, number) : NULL;
}

/* listen: buf/len = sockaddr, tag = Go's listener number, arg[0] backlog; inl out =
 * bound address. */
void ms_call_listen(ms_worker *w, ms_slot *s)
{
    ux_listener_params p;
    ux_listener_attr a;
    ms_listener *l = calloc(1, sizeof *l);

    if (l == NULL) {
        s->status = UX_ERR_NO_MEMORY;
        return;
    }
    l->worker = w;
    l->id = s->tag;
    l->backlog = (uint32_t)s->arg[0];
    memset(&p, 0, sizeof p);
    p.field_mask = UX_LISTENER_PARAM_SOCK_ADDR | UX_LISTENER_PARAM_CONN_HANDLER;
    p.sockaddr.addr = s->buf;
    p.sockaddr.addrlen = (socklen_t)s->len;
    p.conn_handler.cb = on_connect;
    p.conn_handler.arg = l;
    s->status = ux_ucp_listener_create(w->h, &p, &l->h);
    if (s->status != UX_OK) {
        free(l);
        return;
    }
    l->next = w->listeners;
    w->listeners = l;
    ms_mark_cloexec();
    memset(&a, 0, sizeof a);
    a.field_mask = UX_LISTENER_ATTR_SOCKADDR;
    if (ux_ucp_listener_query(l->h, &a) == UX_OK)
        memcpy(s->inl, &a.sockaddr, sizeof a.sockaddr);
    else
        memset(s->inl, 0, sizeof a.sockaddr);
}

/* conn_reject: tag = listener number, mask = number of the request. */
void ms_call_conn_reject(ms_worker *w, ms_slot *s)
{
    ms_listener *l = *find(w, s->tag);
    void *h = l != NULL ? take(l, s->mask) : NULL;

    s->status = h != NULL ? ux_ucp_listener_reject(l->h, h) : UX_ERR_NOT_CONNECTED;
}

/* listener_close: tag = listener number. UCX requires that every request is decided before. */
void ms_call_listener_close(ms_worker *w, ms_slot *s)
{
    ms_listener **link = find(w, s->tag), *l = *link;

    if (l == NULL)
        return;
    while (l->conns != NULL)
        ux_ucp_listener_reject(l->h, take(l, l->conns->number));
    *link = l->next;
    ux_ucp_listener_destroy(l->h);
    free(l);
}
