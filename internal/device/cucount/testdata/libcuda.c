// Replaces the driver in the test of the counting library: functions with the driver's names
// and several signatures.
int cuInit(unsigned flags) { return (int)flags; }
int cuMemAlloc_v2(unsigned long long *p, unsigned long n) { *p = n; return 0; }
struct handle { char bytes[64]; };
int cuIpcOpenMemHandle_v2(unsigned long long *p, struct handle h, unsigned flags) { *p = h.bytes[63]; return (int)flags; }
int cuMemImportFromShareableHandle(void *a, void *b, int c) { return a == b ? c : -c; }
int cuMany(int a, int b, int c, int d, int e, int f, int g, double h, int i) { return a + b + c + d + e + f + g + (int)h + i; }
