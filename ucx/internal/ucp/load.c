/* dlopen of libucp and the table of its functions. */
#define _GNU_SOURCE
#include "shim.h"
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define UX_DEFINE(ret, name, args) ret(*ux_##name) args;
UX_FUNCS(UX_DEFINE, UX_DEFINE)

static void *handle;
static int quarantined; /* patched entries of free in the import tables of UCX */

/* ms_load opens the library once; Go serializes calls. RTLD_LOCAL isolates a second
 * UCX in the process; the library is never closed (UCM patches code and
 * registers exit handlers). only_loaded finds one that the process has loaded. */
int ms_load(const char *path, int only_loaded, char *err, size_t errlen)
{
    void *h;

    if (handle != NULL)
        return 0;
    h = dlopen(path, RTLD_NOW | RTLD_LOCAL | (only_loaded ? RTLD_NOLOAD : 0));
    if (h == NULL) {
        const char *e = dlerror();
        snprintf(err, errlen, "%s", e ? e : "not loaded");
        return -1;
    }
#define UX_REQUIRE(ret, name, args)                                                                \
    if ((ux_##name = (ret(*) args)dlsym(h, #name)) == NULL) {                                      \
        snprintf(err, errlen, "symbol %s is missing: UCX 1.13 or newer is needed", #name);         \
        return -2;                                                                                 \
    }
#define UX_OPTIONAL(ret, name, args) ux_##name = (ret(*) args)dlsym(h, #name);
    UX_FUNCS(UX_REQUIRE, UX_OPTIONAL)
    handle = h;
    quarantined = ms_quarantine();
    return 0;
}

int ms_quarantined(void) { return quarantined; }

int ms_loaded_path(char *buf, size_t n)
{
    Dl_info info;

    if (handle == NULL || dladdr((void *)ux_ucp_init_version, &info) == 0 || info.dli_fname == NULL)
        return -1;
    snprintf(buf, n, "%s", info.dli_fname);
    return 0;
}

void ms_version(unsigned *major, unsigned *minor, unsigned *release)
{
    ux_ucp_get_version(major, minor, release);
}

/* UCX opens most of its descriptors without close-on-exec. Go sets it on all of its
 * own, so marking everything above stderr changes only descriptors of UCX and the
 * driver. */
void ms_mark_cloexec(void)
{
#ifndef SYS_close_range
#define SYS_close_range 436
#endif
    syscall(SYS_close_range, 3u, ~0u, 4u /* CLOSE_RANGE_CLOEXEC */);
}

static int (*hook_set_current)(int);
static int (*hook_event_query)(void *);

void ms_device_hooks(void *set_current, void *event_query)
{
    hook_set_current = (int (*)(int))set_current;
    hook_event_query = (int (*)(void *))event_query;
}

void ms_set_current(int device)
{
    if (hook_set_current != NULL)
        hook_set_current(device);
}

int ms_event_query(void *event)
{
    return hook_event_query != NULL ? hook_event_query(event) : 0;
}
