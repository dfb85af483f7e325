/* Configuration, context, memory registration. */
#define _GNU_SOURCE
#include "shim.h"
#include <stdlib.h>
#include <string.h>

int ms_config_read(void **cfg) { return ux_ucp_config_read(NULL, NULL, cfg); }

int ms_config_modify(void *cfg, const char *name, const char *value)
{
    return ux_ucp_config_modify(cfg, name, value);
}

void ms_config_release(void *cfg) { ux_ucp_config_release(cfg); }

/* The print functions of UCX need a FILE; a memory stream turns them into text. */
char *ms_config_text(void *cfg)
{
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);

    if (f == NULL)
        return NULL;
    ux_ucp_config_print(cfg, f, NULL, UX_CONFIG_PRINT_CONFIG);
    fclose(f);
    return text;
}

char *ms_context_text(void *ctx)
{
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);

    if (f == NULL)
        return NULL;
    ux_ucp_context_print_info(ctx, f);
    fclose(f);
    return text;
}

int ms_context_new(void *cfg, uint64_t features, const char *name, uint64_t num_eps, void **ctx)
{
    ux_params p;

    memset(&p, 0, sizeof p);
    p.field_mask = UX_PARAM_FEATURES | UX_PARAM_MT_WORKERS_SHARED;
    p.features = features;
    p.mt_workers_shared = 1; /* several workers, each on the thread that holds its token */
    if (name != NULL) {
        p.field_mask |= UX_PARAM_NAME;
        p.name = name;
    }
    if (num_eps != 0) {
        p.field_mask |= UX_PARAM_ESTIMATED_NUM_EPS;
        p.estimated_num_eps = num_eps;
    }
    /* Request 1.13: an older version than that of the library never causes a warning. */
    return ux_ucp_init_version(1, 13, &p, cfg, ctx);
}

void ms_context_free(void *ctx) { ux_ucp_cleanup(ctx); }

int ms_context_query(void *ctx, uint64_t *memory_types, uint32_t *thread_mode, char name[32])
{
    ux_context_attr a;
    int s;

    memset(&a, 0, sizeof a);
    a.field_mask = UX_ATTR_MEMORY_TYPES | UX_ATTR_THREAD_MODE | UX_ATTR_NAME;
    s = ux_ucp_context_query(ctx, &a);
    *memory_types = a.memory_types;
    *thread_mode = a.thread_mode;
    memcpy(name, a.name, 32);
    return s;
}

/* The memory calls of UCX query the driver about device memory, which works only on a
 * thread with a current context. */
static void use_device(int32_t device)
{
    if (device >= 0)
        ms_set_current(device);
}

/* flags: bit 0 allocate, bit 1 non-blocking registration; device -1: host memory. */
int ms_mem_map(void *ctx, void *addr, uint64_t len, int32_t memtype, int32_t device, uint32_t flags, void **memh,
               void **out_addr, uint64_t *out_len)
{
    ux_mem_map_params p;
    ux_mem_attr a;
    int s;

    use_device(device);
    memset(&p, 0, sizeof p);
    p.field_mask = UX_MEM_PARAM_LENGTH;
    p.length = len;
    if (flags & 1) {
        p.field_mask |= UX_MEM_PARAM_FLAGS;
        p.flags |= UX_MEM_MAP_ALLOCATE;
    } else {
        p.field_mask |= UX_MEM_PARAM_ADDRESS;
        p.address = addr;
    }
    if (flags & 2) {
        p.field_mask |= UX_MEM_PARAM_FLAGS;
        p.flags |= UX_MEM_MAP_NONBLOCK;
    }
    if (memtype >= 0) {
        p.field_mask |= UX_MEM_PARAM_MEMORY_TYPE;
        p.memory_type = (uint32_t)memtype;
    }
    s = ux_ucp_mem_map(ctx, &p, memh);
    if (s != UX_OK)
        return s;
    memset(&a, 0, sizeof a);
    a.field_mask = UX_MEM_ATTR_ADDRESS | UX_MEM_ATTR_LENGTH;
    s = ux_ucp_mem_query(*memh, &a);
    if (s != UX_OK) {
        ux_ucp_mem_unmap(ctx, *memh);
        return s;
    }
    *out_addr = a.address;
    *out_len = a.length;
    return UX_OK;
}

int ms_mem_unmap(void *ctx, void *memh, int32_t device)
{
    use_device(device);
    return ux_ucp_mem_unmap(ctx, memh);
}

int ms_rkey_pack(void *ctx, void *memh, int32_t device, void **buf, size_t *len)
{
    use_device(device);
    return ux_ucp_rkey_pack(ctx, memh, buf, len);
}

void ms_rkey_buffer_release(void *buf) { ux_ucp_rkey_buffer_release(buf); }
