// Counts the calls of a process into the CUDA driver. Loaded with LD_PRELOAD, it intercepts the two
// ways in which functions of libcuda.so.1 are found:
//
//   - by the dynamic linker: the functions below that open memory of other processes are
//     exported under the driver's names, and this library is searched first. (libuct_cuda of UCX
//     is linked against libcuda. Its hooks rewrite cuMemAlloc and similar functions in place, so those
//     must not be found here, and are not exported.)
//   - by dlsym on a handle of the library, as in Millstream: the result is a counting
//     entry, for any function.
//
// The counters are in a file that other processes may read at any time: $CUCOUNT_DIR/PID.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if !defined(__x86_64__)
#error "the counter of CUDA driver calls supports x86-64 only"
#endif

// count.go uses the same layout: one page of counters, then names of 64 bytes.
#define ENTRIES 512
struct table {
	uint64_t counts[ENTRIES];
	char names[ENTRIES][64];
};
__attribute__((aligned(4096), visibility("hidden"))) struct table cucount_table;
// Target of each entry.
__attribute__((visibility("hidden"))) void *cucount_real[ENTRIES];

// Entry i counts and jumps to its target with all registers and the stack unchanged, so that it works for
// functions of any signature. 16 bytes each.
__asm__(
	".text\n"
	".balign 16\n"
	".hidden cucount_entries\n"
	"cucount_entries:\n"
	".set i, 0\n"
	".rept 512\n"
	".balign 16\n"
	"lock incq cucount_table+8*i(%rip)\n"
	"jmp *cucount_real+8*i(%rip)\n"
	".set i, i+1\n"
	".endr\n");
extern char cucount_entries[];

// Functions that open memory of another process, in the order of their entries.
#define EXPORTED(F) \
	F(0, cuIpcOpenMemHandle) \
	F(1, cuIpcOpenMemHandle_v2) \
	F(2, cuMemImportFromShareableHandle) \
	F(3, cuMemPoolImportFromShareableHandle) \
	F(4, cuMemPoolImportPointer) \
	F(5, cuIpcCloseMemHandle)

#define ALIAS(i, name) \
	__asm__(".globl " #name "\n.type " #name ", @function\n.set " #name ", cucount_entries+16*" #i "\n");
EXPORTED(ALIAS)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int used;
static void *(*real_dlsym)(void *, const char *);

static void find_dlsym(void) {
	if (!real_dlsym)
		*(void **)&real_dlsym = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
}

static void *entry(int i) { return cucount_entries + 16 * i; }

static void set(int i, const char *name, void *real) {
	snprintf(cucount_table.names[i], sizeof cucount_table.names[i], "%s", name);
	__atomic_store_n(&cucount_real[i], real, __ATOMIC_RELEASE);
}

__attribute__((constructor)) static void begin(void) {
	const char *dir = getenv("CUCOUNT_DIR");
	char path[4096];
	find_dlsym();
	if (dir) {
		snprintf(path, sizeof path, "%s/%d", dir, (int)getpid());
		int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
		if (fd < 0 || ftruncate(fd, sizeof cucount_table) != 0 ||
		    mmap(&cucount_table, sizeof cucount_table, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED) {
			perror(path);
			abort(); // invisible counters would look like zeros
		}
		close(fd);
	}
	void *cuda = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
#define FIRST(i, name) set(i, #name, cuda ? real_dlsym(cuda, #name) : NULL); used = i + 1;
	EXPORTED(FIRST)
#undef FIRST
}

// counted returns the counting entry of a driver function.
static void *counted(const char *name, void *real) {
	void *found = real; // table full: not counted; its last name shows it
	pthread_mutex_lock(&lock);
	int i = 0;
	while (i < used && strcmp(cucount_table.names[i], name) != 0)
		i++;
	if (i < ENTRIES) {
		if (i == used)
			used++;
		set(i, name, real);
		found = entry(i);
	}
	pthread_mutex_unlock(&lock);
	return found;
}

static int of_driver(void *function) {
	Dl_info where;
	return dladdr(function, &where) && where.dli_fname && strstr(where.dli_fname, "libcuda.so");
}

__attribute__((noinline)) static void *lookup(void *handle, const char *name) {
	void *real = real_dlsym(handle, name);
	return real && of_driver(real) ? counted(name, real) : real;
}

void *dlsym(void *restrict handle, const char *restrict name) {
	find_dlsym();
	if (handle != RTLD_NEXT && handle != RTLD_DEFAULT && name[0] == 'c' && name[1] == 'u')
		return lookup(handle, name);
	// A tail call, because the meaning of RTLD_NEXT depends on the caller's address.
	return real_dlsym(handle, name);
}
