// Calls driver functions in both ways: linked, as UCX does, and looked up, as Millstream does.
// The exit status is the number of wrong results.
#define _GNU_SOURCE
#include <dlfcn.h>
struct handle { char bytes[64]; };
extern int cuInit(unsigned);
extern int cuIpcOpenMemHandle_v2(unsigned long long *, struct handle, unsigned);
extern int cuMemImportFromShareableHandle(void *, void *, int);

int main(void) {
	int wrong = 0;
	unsigned long long p = 0;
	struct handle h = {{0}};
	h.bytes[63] = 42;
	for (int i = 0; i < 3; i++)
		wrong += cuIpcOpenMemHandle_v2(&p, h, 7) != 7 || p != 42;
	wrong += cuMemImportFromShareableHandle(&p, &p, 5) != 5;
	wrong += cuInit(3) != 3; // linked but not intercepted: not counted
	void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!lib)
		return 100;
	int (*init)(unsigned) = (int (*)(unsigned))dlsym(lib, "cuInit");
	int (*many)(int, int, int, int, int, int, int, double, int) = (int (*)(int, int, int, int, int, int, int, double, int))dlsym(lib, "cuMany");
	int (*alloc)(unsigned long long *, unsigned long) = (int (*)(unsigned long long *, unsigned long))dlsym(lib, "cuMemAlloc_v2");
	int (*open)(unsigned long long *, struct handle, unsigned) = (int (*)(unsigned long long *, struct handle, unsigned))dlsym(lib, "cuIpcOpenMemHandle_v2");
	wrong += dlsym(lib, "cuNothing") != 0;
	wrong += init(9) != 9;
	wrong += many(1, 2, 3, 4, 5, 6, 7, 8.0, 9) != 45;
	for (int i = 0; i < 5; i++)
		wrong += alloc(&p, 99) != 0 || p != 99;
	wrong += open(&p, h, 8) != 8;
	wrong += dlsym(RTLD_DEFAULT, "main") == (void *)dlsym; // other lookups are not changed
	wrong += dlsym(RTLD_NEXT, "cuInit") == (void *)init;
	return wrong;
}
