/* All-reduce of NCCL, for `millstream bench allreduce`: RANKS SECONDS SIZE..., prints one line of JSON for each size
 * from rank 0. All ranks are processes on one GPU, each with its own host id, because NCCL rejects them otherwise. Both
 * libraries are opened at run time, so that it builds without CUDA: cc -O2 FILE -o bench -ldl
 *
 * As in nccl-tests, a rank enqueues all calls of a size on its stream and then waits for the stream. */
#include <dlfcn.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef struct { char internal[128]; } unique_id;
typedef void *comm_t, *stream_t;
enum { FLOAT32 = 7, INT64 = 4, SUM = 0 };

static int (*cu_init)(unsigned);
static int (*cu_device)(int *, int);
static int (*cu_retain)(void **, int);
static int (*cu_current)(void *);
static int (*cu_stream)(stream_t *, unsigned);
static int (*cu_wait)(stream_t);
static int (*cu_alloc)(uint64_t *, size_t);
static int (*cu_free)(uint64_t);
static int (*cu_down)(void *, uint64_t, size_t);
static int (*cu_up)(uint64_t, const void *, size_t);
static int (*get_id)(unique_id *);
static int (*init_rank)(comm_t *, int, unique_id, int);
static int (*all_reduce)(const void *, void *, size_t, int, int, comm_t, stream_t);
static int (*broadcast)(const void *, void *, size_t, int, int, comm_t, stream_t);
static int (*destroy)(comm_t);
static const char *(*text)(int);

static int rank, ranks;
static comm_t comm;
static stream_t stream;

static void fail(const char *what, int code)
{
	fprintf(stderr, "rank %d: %s: %d %s\n", rank, what, code, text && code > 0 ? text(code) : "");
	exit(1);
}
#define DO(call) do { int code_ = (call); if (code_ != 0) fail(#call, code_); } while (0)

static void *symbol(void *lib, const char *name)
{
	void *p = dlsym(lib, name);
	if (!p)
		fail(name, -1);
	return p;
}

static void load(void)
{
	const char *chosen = getenv("MILLSTREAM_NCCL_LIBRARY");
	void *cuda = dlopen("libcuda.so.1", RTLD_NOW), *nccl = dlopen(chosen && *chosen ? chosen : "libnccl.so.2", RTLD_NOW);
	if (!cuda || !nccl) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	cu_init = symbol(cuda, "cuInit");
	cu_device = symbol(cuda, "cuDeviceGet");
	cu_retain = symbol(cuda, "cuDevicePrimaryCtxRetain");
	cu_current = symbol(cuda, "cuCtxSetCurrent");
	cu_stream = symbol(cuda, "cuStreamCreate");
	cu_wait = symbol(cuda, "cuStreamSynchronize");
	cu_alloc = symbol(cuda, "cuMemAlloc_v2");
	cu_free = symbol(cuda, "cuMemFree_v2");
	cu_down = symbol(cuda, "cuMemcpyDtoH_v2");
	cu_up = symbol(cuda, "cuMemcpyHtoD_v2");
	get_id = symbol(nccl, "ncclGetUniqueId");
	init_rank = symbol(nccl, "ncclCommInitRank");
	all_reduce = symbol(nccl, "ncclAllReduce");
	broadcast = symbol(nccl, "ncclBroadcast");
	destroy = symbol(nccl, "ncclCommDestroy");
	text = symbol(nccl, "ncclGetErrorString");
}

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + 1e-9 * t.tv_nsec;
}

static double calls(uint64_t send, uint64_t recv, size_t n, long k, uint64_t word)
{
	DO(all_reduce((void *)word, (void *)word, 1, INT64, SUM, comm, stream)); /* a barrier */
	DO(cu_wait(stream));
	double begin = now();
	for (long i = 0; i < k; i++)
		DO(all_reduce((void *)send, (void *)recv, n, FLOAT32, SUM, comm, stream));
	DO(cu_wait(stream));
	return now() - begin;
}

static void measure(size_t bytes, double seconds, uint64_t word)
{
	size_t n = bytes / 4;
	uint64_t send, recv;
	float *host = malloc(bytes);
	for (size_t i = 0; i < n; i++)
		host[i] = (float)(rank + 1);
	DO(cu_alloc(&send, bytes));
	DO(cu_alloc(&recv, bytes));
	DO(cu_up(send, host, bytes));
	calls(send, recv, n, 2, word);
	double warm = calls(send, recv, n, 5, word);
	int64_t k = (int64_t)(5 * seconds / (warm + 1e-9));
	if (k < 3)
		k = 3;
	DO(cu_up(word, &k, 8));
	DO(broadcast((void *)word, (void *)word, 1, INT64, 0, comm, stream));
	DO(cu_wait(stream));
	DO(cu_down(&k, word, 8));
	double took = calls(send, recv, n, k, word);
	DO(cu_down(host, recv, bytes));
	float want = (float)(ranks * (ranks + 1) / 2);
	if (host[0] != want || host[n / 2] != want || host[n - 1] != want) {
		fprintf(stderr, "wrong result: %g, want %g\n", host[n / 2], want);
		exit(1);
	}
	if (rank == 0) {
		printf("{\"size\":%zu,\"us\":%.3f,\"transport\":\"nccl\"}\n", bytes, took / k * 1e6);
		fflush(stdout);
	}
	DO(cu_free(send));
	DO(cu_free(recv));
	free(host);
}

/* Rank 0 sends the id to each other rank through a pipe. */
static int run(int argc, char **argv, int (*pipes)[2])
{
	char host[64];
	snprintf(host, sizeof host, "bench-allreduce-%d", (int)getpid());
	setenv("NCCL_HOSTID", host, 1);
	setenv("NCCL_SOCKET_IFNAME", "lo", 0);
	load();
	void *context;
	int device;
	DO(cu_init(0));
	DO(cu_device(&device, 0));
	DO(cu_retain(&context, device));
	DO(cu_current(context));
	DO(cu_stream(&stream, 1)); /* CU_STREAM_NON_BLOCKING */
	unique_id id;
	if (rank == 0) {
		DO(get_id(&id));
		for (int r = 1; r < ranks; r++)
			if (write(pipes[r][1], &id, sizeof id) != sizeof id)
				fail("write", -1);
	} else if (read(pipes[rank][0], &id, sizeof id) != sizeof id) {
		fail("read", -1);
	}
	double begin = now();
	DO(init_rank(&comm, ranks, id, rank));
	if (rank == 0)
		fprintf(stderr, "init %.3f ms\n", 1e3 * (now() - begin));
	uint64_t word;
	DO(cu_alloc(&word, 8));
	for (int a = 3; a < argc; a++)
		measure((size_t)atol(argv[a]), atof(argv[2]), word);
	DO(destroy(comm));
	return 0;
}

int main(int argc, char **argv)
{
	if (argc < 4 || (ranks = atoi(argv[1])) < 1 || ranks > 64) {
		fprintf(stderr, "usage: %s RANKS SECONDS SIZE...\n", argv[0]);
		return 2;
	}
	int pipes[64][2];
	for (int r = 1; r < ranks; r++)
		if (pipe(pipes[r]) != 0)
			return 1;
	for (rank = 0; rank < ranks; rank++) { /* before CUDA is initialized, which does not survive a fork */
		pid_t p = fork();
		if (p < 0)
			return 1;
		if (p == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL); /* a rank whose peers failed would never end */
			exit(run(argc, argv, pipes));
		}
	}
	for (int r = 0; r < ranks; r++) {
		int status;
		if (wait(&status) < 0 || status != 0)
			return 1;
	}
	return 0;
}
