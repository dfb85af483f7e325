/* Defers frees of UCX during progress until progress has returned.
 *
 * The event handler of the tcp transport reads from a socket and then, if the same event
 * reports that it is writable, writes through the same endpoint. Reading may free the
 * endpoint: this happens when the endpoint was closed locally and the peer's close message
 * arrives. If a send was blocked when it was closed, the handler continues with freed memory
 * (seen as jumps to invalid addresses and failed assertions with 1.13.1; the code is the same
 * in 1.22). As long as the memory is unchanged, the endpoint is a closed one, for which the
 * handler does nothing.
 *
 * So free, as called by libuct and libucs through their import tables, is redirected to
 * free_later. Outside of progress, and in other threads, it calls free. */
#define _GNU_SOURCE
#include "shim.h"
#include <elf.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__x86_64__)
enum { JUMP_SLOT = R_X86_64_JUMP_SLOT, GLOB_DAT = R_X86_64_GLOB_DAT };
#elif defined(__aarch64__)
enum { JUMP_SLOT = R_AARCH64_JUMP_SLOT, GLOB_DAT = R_AARCH64_GLOB_DAT };
#else
enum { JUMP_SLOT = -1, GLOB_DAT = -1 };
#endif

enum { KEPT = 128 }; /* further ones are freed immediately: the first ones matter */

static __thread struct {
    void *kept[KEPT];
    int n;
    int on;
} quarantine;

static void free_later(void *p)
{
    if (__builtin_expect(quarantine.on && quarantine.n < KEPT, 0) && p != NULL)
        quarantine.kept[quarantine.n++] = p;
    else
        free(p);
}

/* ms_progress calls UCX's progress. */
unsigned ms_progress(ms_worker *w)
{
    unsigned n;

    quarantine.on = 1;
    n = ux_ucp_worker_progress(w->h);
    quarantine.on = 0;
    while (__builtin_expect(quarantine.n > 0, 0))
        free(quarantine.kept[--quarantine.n]);
    return n;
}

/* at converts an address of the dynamic section to a pointer; glibc has relocated them. */
static const void *at(const struct dl_phdr_info *o, ElfW(Addr) a)
{
    return (const void *)(a < o->dlpi_addr ? a + o->dlpi_addr : a);
}

/* inside_relro reports whether a slot is in the part that the loader made read-only. */
static int inside_relro(const struct dl_phdr_info *o, uintptr_t slot)
{
    for (int i = 0; i < o->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &o->dlpi_phdr[i];

        if (p->p_type == PT_GNU_RELRO && slot >= o->dlpi_addr + p->p_vaddr && slot < o->dlpi_addr + p->p_vaddr + p->p_memsz)
            return 1;
    }
    return 0;
}

static int redirect(const struct dl_phdr_info *o, void **slot)
{
    uintptr_t page = (uintptr_t)slot & ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1);
    size_t n = (uintptr_t)(slot + 1) - page;
    int relro = inside_relro(o, (uintptr_t)slot);

    if (relro && mprotect((void *)page, n, PROT_READ | PROT_WRITE) != 0)
        return 0;
    __atomic_store_n(slot, (void *)free_later, __ATOMIC_RELEASE);
    if (relro)
        mprotect((void *)page, n, PROT_READ);
    return 1;
}

static int redirect_all(const struct dl_phdr_info *o, const ElfW(Rela) *r, size_t bytes, const ElfW(Sym) *syms, const char *names)
{
    int done = 0;

    for (size_t i = 0; r != NULL && i < bytes / sizeof *r; i++) {
        int type = (int)ELF64_R_TYPE(r[i].r_info);

        if ((type == JUMP_SLOT || type == GLOB_DAT) && strcmp(names + syms[ELF64_R_SYM(r[i].r_info)].st_name, "free") == 0)
            done += redirect(o, (void **)(o->dlpi_addr + r[i].r_offset));
    }
    return done;
}

static int visit(struct dl_phdr_info *o, size_t size, void *arg)
{
    const char *base = strrchr(o->dlpi_name, '/');
    const ElfW(Dyn) *d = NULL;
    const ElfW(Rela) *plt = NULL, *rela = NULL;
    const ElfW(Sym) *syms = NULL;
    const char *names = NULL;
    size_t plt_bytes = 0, rela_bytes = 0;

    (void)size;
    base = base != NULL ? base + 1 : o->dlpi_name;
    if (strncmp(base, "libucs", 6) != 0 && strncmp(base, "libuct", 6) != 0)
        return 0;
    for (int i = 0; i < o->dlpi_phnum; i++)
        if (o->dlpi_phdr[i].p_type == PT_DYNAMIC)
            d = (const void *)(o->dlpi_addr + o->dlpi_phdr[i].p_vaddr);
    for (; d != NULL && d->d_tag != DT_NULL; d++) {
        switch (d->d_tag) {
        case DT_JMPREL: plt = at(o, d->d_un.d_ptr); break;
        case DT_PLTRELSZ: plt_bytes = d->d_un.d_val; break;
        case DT_RELA: rela = at(o, d->d_un.d_ptr); break;
        case DT_RELASZ: rela_bytes = d->d_un.d_val; break;
        case DT_SYMTAB: syms = at(o, d->d_un.d_ptr); break;
        case DT_STRTAB: names = at(o, d->d_un.d_ptr); break;
        }
    }
    if (syms != NULL && names != NULL)
        *(int *)arg += redirect_all(o, plt, plt_bytes, syms, names) + redirect_all(o, rela, rela_bytes, syms, names);
    return 0;
}

/* ms_quarantine returns the number of entries that it redirected to free_later: two or more,
 * or 0 if the layout of the libraries is unknown; they are then not patched. */
int ms_quarantine(void)
{
    int done = 0;

    dl_iterate_phdr(visit, &done);
    return done;
}
