/* Remote keys: unpacking, use by operations, release. See struct ms_rkey. */
#include "shim.h"
#include <stdlib.h>

static void recycle(ms_worker *w, ms_rkey *k)
{
    ux_ucp_rkey_destroy(k->h);
    k->h = NULL;
    k->serial = 0;
    k->next = w->rkeys_free;
    w->rkeys_free = k;
}

/* rkey_unpack: hdr = ms_ep, buf = packed key, device = device whose context the key of device
 * memory may need, -1 for none; rtag out = ms_rkey, rlen out = its serial, arg[0] out =
 * whether the endpoint has peer error mode. */
void ms_call_rkey_unpack(ms_worker *w, ms_slot *s)
{
    ms_ep *ep = s->hdr;
    ms_rkey *k = w->rkeys_free;

    if (ep->closed || ep->err != 0) {
        s->status = ep->err != 0 ? ep->err : UX_ERR_NOT_CONNECTED;
        return;
    }
    if (s->device >= 0 && w->device < 0)
        w->device = s->device;
    if (w->device >= 0)
        ms_set_current(w->device);
    if (k == NULL) {
        if ((k = calloc(1, sizeof *k)) == NULL) {
            s->status = UX_ERR_NO_MEMORY;
            return;
        }
        k->all = w->rkeys_all;
        w->rkeys_all = k;
        k->next = NULL;
        w->rkeys_free = k;
    }
    s->status = ux_ucp_ep_rkey_unpack(ep->h, s->buf, &k->h);
    if (s->status != UX_OK) {
        k->h = NULL;
        return;
    }
    w->rkeys_free = k->next;
    k->next = NULL;
    k->refs = k->dead = 0;
    k->serial = ++w->rkey_serial;
    s->rtag = (uint64_t)(uintptr_t)k;
    s->rlen = k->serial;
    s->arg[0] = ep->peer_errors;
}

/* rkey_destroy: buf = ms_rkey, arg[0] = its serial. */
void ms_call_rkey_destroy(ms_worker *w, ms_slot *s)
{
    ms_rkey *k = s->buf;

    if (k->serial != s->arg[0] || k->dead)
        return;
    k->dead = 1;
    if (k->refs == 0)
        recycle(w, k);
}

/* ms_rkey_take acquires the key for an operation; it returns 0 if it was released before. */
int ms_rkey_take(ms_slot *s)
{
    ms_rkey *k = (ms_rkey *)(uintptr_t)s->mask;

    if (k->serial != (uint64_t)(uintptr_t)s->hdr || k->dead)
        return 0;
    k->refs++;
    s->on_rkey = 1;
    return 1;
}

/* ms_rkey_drop releases the key. It may run inside a callback of UCX, where nothing may be
 * destroyed: that is deferred to the next turn. */
void ms_rkey_drop(ms_slot *s)
{
    ms_rkey *k = (ms_rkey *)(uintptr_t)s->mask;

    s->on_rkey = 0;
    if (--k->refs == 0 && k->dead) {
        k->next = s->worker->rkeys_dead;
        s->worker->rkeys_dead = k;
    }
}

void ms_rkeys_sweep(ms_worker *w)
{
    ms_rkey *k;

    while ((k = w->rkeys_dead) != NULL) {
        w->rkeys_dead = k->next;
        recycle(w, k);
    }
}

/* ms_rkeys_free destroys all keys of a worker that is about to be destroyed. A key that an
 * operation still holds is kept: UCX may read it until the worker is destroyed. */
void ms_rkeys_free(ms_worker *w)
{
    ms_rkey *k, *next;

    for (k = w->rkeys_all; k != NULL; k = next) {
        next = k->all;
        if (k->refs != 0)
            continue;
        if (k->h != NULL)
            ux_ucp_rkey_destroy(k->h);
        free(k);
    }
}
