/* One rank of testC: NAME RANKS ROUNDS [kill | native LIBRARY]. It prints its contact, reads those of all ranks, and uses every function. */
#include "millstream.h"

#include <dirent.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define DO(x) \
	do { \
		int code_ = (x); \
		if (code_ != MILLSTREAM_OK) { \
			printf("FAIL %s:%d %s: %d %s\n", name, __LINE__, #x, code_, millstream_v1_last_error()); \
			exit(1); \
		} \
	} while (0)
#define WANT(x) \
	do { \
		if (!(x)) { \
			printf("FAIL %s:%d %s; last error %s\n", name, __LINE__, #x, millstream_v1_last_error()); \
			exit(1); \
		} \
	} while (0)

static const char *name;
static volatile sig_atomic_t signaled;

static void on_signal(int n) { signaled = n; }

static int entries(const char *folder) {
	int n = 0;
	DIR *d = opendir(folder);
	while (readdir(d) != NULL)
		n++;
	closedir(d);
	return n;
}

/* Returns the memory of the process that is in use, in KiB. */
static long memory(void) {
	long size, resident = 0;
	FILE *f = fopen("/proc/self/statm", "r");
	WANT(f != NULL && fscanf(f, "%ld %ld", &size, &resident) == 2);
	fclose(f);
	return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

static char *read_line(void) {
	char *line = NULL;
	size_t room = 0;
	ssize_t n = getline(&line, &room, stdin);
	WANT(n > 0);
	line[n - 1] = 0;
	return line;
}

static millstream_v1_comm form(const char *id, int n) {
	millstream_v1_options o = MILLSTREAM_V1_OPTIONS;
	o.id = id;
	o.name = name;
	o.backend = "comm";
	o.timeout = 300;
	millstream_v1_comm c = 0;
	char *contact, *ticket, *all[64];
	DO(millstream_v1_open(&o, &c, &contact));
	printf("contact %s\n", contact);
	fflush(stdout);
	millstream_v1_free(contact);
	for (int i = 0; i < n; i++)
		all[i] = read_line();
	DO(millstream_v1_ticket((const char *const *)all, n, &ticket));
	for (int i = 0; i < n; i++)
		free(all[i]);
	int rank, ranks;
	WANT(millstream_v1_rank(c, &rank, &ranks) == MILLSTREAM_INVALID); /* not joined */
	DO(millstream_v1_join(c, ticket));
	millstream_v1_free(ticket);
	return c;
}

static void collectives(millstream_v1_comm c, int me, int n) {
	int64_t mine[3] = {me, 10 + me, 100}, all[3 * 64], sum[3];
	DO(millstream_v1_barrier(c));
	DO(millstream_v1_allreduce(c, mine, sum, 3, MILLSTREAM_INT64, MILLSTREAM_SUM));
	WANT(sum[0] == n * (n - 1) / 2 && sum[2] == 100 * n);
	DO(millstream_v1_reduce(c, mine, me == 1 ? sum : NULL, 3, MILLSTREAM_INT64, MILLSTREAM_MAX, 1));
	WANT(me != 1 || sum[1] == 10 + n - 1);
	DO(millstream_v1_allgather(c, mine, all, 3, MILLSTREAM_INT64));
	for (int i = 0; i < n; i++)
		WANT(all[3 * i] == i && all[3 * i + 1] == 10 + i);
	DO(millstream_v1_gather(c, mine, me == 0 ? all : NULL, 3, MILLSTREAM_INT64, 0));
	int64_t part[3] = {-1, -1, -1};
	DO(millstream_v1_scatter(c, me == 0 ? all : NULL, part, 3, MILLSTREAM_INT64, 0));
	WANT(part[0] == me && part[1] == 10 + me);
	DO(millstream_v1_broadcast(c, part, 3, MILLSTREAM_INT64, n - 1));
	WANT(part[0] == n - 1);
	for (int i = 0; i < n; i++)
		all[i] = i + me;
	DO(millstream_v1_reducescatter(c, all, part, 1, MILLSTREAM_INT64, MILLSTREAM_MIN));
	WANT(part[0] == me);
	int64_t from[64];
	DO(millstream_v1_alltoall(c, all, from, 1, MILLSTREAM_INT64));
	for (int i = 0; i < n; i++)
		WANT(from[i] == me + i);
	size_t big = 1 << 18;
	float *x = malloc(big * sizeof *x);
	for (size_t i = 0; i < big; i++)
		x[i] = (float)(i % 100);
	DO(millstream_v1_allreduce(c, x, x, big, MILLSTREAM_FLOAT32, MILLSTREAM_SUM));
	WANT(x[12345] == (float)(45 * n));
	free(x);
}

static void messages(millstream_v1_comm c, int me, int n) {
	uint64_t tag = 1ull << 63 | 7, got = 0;
	int to = (me + 1) % n, from = (me + n - 1) % n;
	int32_t out[5] = {me, 1, 2, 3, 4}, in[8] = {0};
	DO(millstream_v1_sendrecv(c, out, 5, to, tag, in, 8, from, tag, MILLSTREAM_INT32, &got));
	WANT(got == 5 && in[0] == from && in[4] == 4);
	millstream_v1_call r = {.size = sizeof r, .operation = MILLSTREAM_RECV, .dtype = MILLSTREAM_INT32, .peer = from, .count = 8,
		.tag = 9, .recv = in};
	millstream_v1_request q = 0;
	DO(millstream_v1_start(c, &r, &q));
	WANT(millstream_v1_wait(q, 0, NULL) == MILLSTREAM_TIMEOUT); /* sent after the barrier only */
	DO(millstream_v1_barrier(c));
	DO(millstream_v1_send(c, out, 2, MILLSTREAM_INT32, to, 9));
	DO(millstream_v1_wait(q, -1, &got));
	WANT(got == 2 && in[0] == from);
	WANT(millstream_v1_wait(q, -1, &got) == MILLSTREAM_CLOSED);
	if (me == 0)
		DO(millstream_v1_send(c, out, 1, MILLSTREAM_INT32, 1, 10));
	if (me == 1)
		DO(millstream_v1_recv(c, in, 1, MILLSTREAM_INT32, 0, 10, NULL));
}

static void errors(millstream_v1_comm c, int me, int n) {
	int64_t x[2] = {1, 2};
	int rank = 99;
	WANT(millstream_v1_allreduce(c, x, x, me == 1 ? 1 : 2, MILLSTREAM_INT64, MILLSTREAM_SUM) == MILLSTREAM_MISMATCH);
	WANT(millstream_v1_allreduce(c, x, x, 1, me == 1 ? 99 : MILLSTREAM_INT64, MILLSTREAM_SUM) == MILLSTREAM_MISMATCH);
	WANT(strstr(millstream_v1_last_error(), "element type 99") != NULL);
	WANT(millstream_v1_allreduce(c, me == 2 ? NULL : x, x, 1, MILLSTREAM_INT64, MILLSTREAM_SUM) == MILLSTREAM_MISMATCH);
	WANT(strstr(millstream_v1_last_error(), "null pointer") != NULL);
	WANT((me == 0 ? millstream_v1_reject(c, MILLSTREAM_BROADCAST, "no luck")
		: millstream_v1_broadcast(c, x, 1, MILLSTREAM_INT64, 1)) == MILLSTREAM_MISMATCH);
	WANT(strstr(millstream_v1_last_error(), "no luck") != NULL);
	WANT(millstream_v1_allreduce(c, x, x, 1ull << 62, MILLSTREAM_INT64, MILLSTREAM_SUM) == MILLSTREAM_MISMATCH);
	WANT(millstream_v1_broadcast(c, x, 1, MILLSTREAM_INT64, n) == MILLSTREAM_MISMATCH);
	WANT(millstream_v1_send(c, NULL, 1, MILLSTREAM_INT64, 0, 0) == MILLSTREAM_INVALID);
	WANT(millstream_v1_send(c, x, 1, -5, 0, 0) == MILLSTREAM_INVALID);
	WANT(millstream_v1_barrier(12345) == MILLSTREAM_CLOSED && millstream_v1_destroy(0) == MILLSTREAM_CLOSED);
	WANT(millstream_v1_name(c, n, NULL) == MILLSTREAM_INVALID);
	WANT(millstream_v1_set_timeout(c, -1) == MILLSTREAM_INVALID);
	DO(millstream_v1_set_timeout(c, 600));
	DO(millstream_v1_failed_rank(c, &rank));
	WANT(rank == -1);
	DO(millstream_v1_barrier(c)); /* still usable */
}

static void ragged(millstream_v1_comm c, int me, int n) {
	uint64_t counts[64], same[64], total = 0;
	for (int i = 0; i < n; i++) {
		counts[i] = i; /* rank 0 has nothing */
		same[i] = me;
		total += i;
	}
	int32_t mine[64], all[64 * 64], back[64], from[64 * 64];
	for (int i = 0; i < me; i++)
		mine[i] = 100 * me + i;
	DO(millstream_v1_allgatherv(c, mine, all, counts, MILLSTREAM_INT32));
	WANT(all[0] == 100 && all[1] == 200 && all[2] == 201 && all[total - 1] == 100 * (n - 1) + n - 2);
	DO(millstream_v1_gatherv(c, mine, me, me == 1 ? all : NULL, me == 1 ? counts : NULL, MILLSTREAM_INT32, 1));
	DO(millstream_v1_scatterv(c, me == 1 ? all : NULL, me == 1 ? counts : NULL, back, me, MILLSTREAM_INT32, 1));
	WANT(memcmp(mine, back, me * sizeof *mine) == 0);
	DO(millstream_v1_alltoallv(c, all, counts, from, same, MILLSTREAM_INT32));
	for (int i = 0; i < n * me; i++)
		WANT(from[i] == mine[i % me]);
	WANT(millstream_v1_allgatherv(c, mine, all, me == 1 ? NULL : counts, MILLSTREAM_INT32) == MILLSTREAM_MISMATCH);
}

static void grouped(millstream_v1_comm c, int me, int n) {
	int to = (me + 1) % n, from = (me + n - 1) % n;
	int32_t x[4] = {me, me + 1, me + 2, me + 3}, y[4] = {0};
	DO(millstream_v1_group_start(c));
	DO(millstream_v1_send(c, x, 4, MILLSTREAM_INT32, to, 20));
	DO(millstream_v1_recv(c, y, 4, MILLSTREAM_INT32, from, 20, NULL));
	DO(millstream_v1_group_end(c));
	WANT(y[3] == from + 3);
	WANT(millstream_v1_group_end(c) == MILLSTREAM_INVALID);
	uint64_t one[64], at[64], back[64];
	int ranks[64];
	int32_t sent[64], got[64];
	for (int i = 0; i < n; i++) {
		one[i] = 1;
		at[i] = i;
		back[i] = n - 1 - i;
		ranks[i] = i;
		sent[i] = 10 * me + i;
	}
	DO(millstream_v1_multicast_sendrecv(c, sent, one, at, ranks, n, got, one, back, ranks, n, MILLSTREAM_INT32, 21));
	for (int i = 0; i < n; i++)
		WANT(got[n - 1 - i] == 10 * i + me);
	millstream_v1_request q[3] = {0};
	DO(millstream_v1_irecv(c, y, 1, MILLSTREAM_INT32, from, 22, &q[0]));
	WANT(millstream_v1_waitall(q, 3, 0) == MILLSTREAM_TIMEOUT && q[0] != 0); /* sent after the barrier only */
	DO(millstream_v1_barrier(c));
	DO(millstream_v1_isend(c, x, 1, MILLSTREAM_INT32, to, 22, &q[1]));
	DO(millstream_v1_waitall(q, 3, -1));
	WANT(y[0] == from && q[0] == 0 && q[1] == 0);
	q[2] = 4711;
	WANT(millstream_v1_waitall(q, 3, 1) == MILLSTREAM_CLOSED && strstr(millstream_v1_last_error(), "4711") != NULL);
	millstream_v1_comm copy = 0;
	int rank, size;
	DO(millstream_v1_dup(c, &copy));
	DO(millstream_v1_rank(copy, &rank, &size));
	WANT(rank == me && size == n);
	DO(millstream_v1_destroy(copy));
}

static void device(millstream_v1_comm c, int me) {
	char *backend;
	void *nccl, *stream;
	DO(millstream_v1_device_backend(c, &backend));
	WANT(strcmp(backend, "comm") == 0);
	millstream_v1_free(backend);
	WANT(millstream_v1_nccl_comm(c, &nccl, &stream) == MILLSTREAM_INVALID && nccl == NULL);
	WANT(strstr(millstream_v1_last_error(), "NCCL") != NULL);
	DO(millstream_v1_set_stream(c, NULL));
	int code = millstream_v1_sync_stream(c, NULL); /* MILLSTREAM_INVALID without a GPU */
	WANT(code == MILLSTREAM_OK || code == MILLSTREAM_INVALID);
	int32_t x = me;
	millstream_v1_call call = {.size = sizeof call, .operation = MILLSTREAM_ALLREDUCE, .dtype = MILLSTREAM_INT32,
		.op = MILLSTREAM_MAX, .count = 1, .send = &x, .recv = &x, .memory = me == 1 ? MILLSTREAM_DEVICE : MILLSTREAM_HOST};
	WANT(millstream_v1_run(c, &call, NULL) == MILLSTREAM_MISMATCH); /* x is not device memory */
	WANT(strstr(millstream_v1_last_error(), "is not device memory") != NULL);
	call.size = offsetof(millstream_v1_call, memory); /* of the first release */
	DO(millstream_v1_run(c, &call, NULL));
	call.size = 8;
	WANT(millstream_v1_run(c, &call, NULL) == MILLSTREAM_INVALID && millstream_v1_run(c, NULL, NULL) == MILLSTREAM_INVALID);
}

static void split(millstream_v1_comm c, int me, int n) {
	millstream_v1_comm sub = 0;
	int rank, ranks;
	DO(millstream_v1_split(c, me % 2, -me, &sub));
	DO(millstream_v1_rank(sub, &rank, &ranks));
	WANT(ranks == n / 2 && rank == ranks - 1 - me / 2);
	int64_t x = me;
	DO(millstream_v1_allreduce(sub, &x, &x, 1, MILLSTREAM_INT64, MILLSTREAM_SUM));
	WANT(x == (me % 2 ? 4 : 2));
	DO(millstream_v1_destroy(sub));
	DO(millstream_v1_split(c, me == 0 ? -1 : 0, 0, &sub));
	WANT((sub == 0) == (me == 0));
	if (sub != 0)
		DO(millstream_v1_destroy(sub));
}

static void process(millstream_v1_comm c) {
	signal(SIGUSR1, on_signal);
	raise(SIGUSR1);
	WANT(signaled == SIGUSR1);
	pid_t child = fork();
	if (child == 0)
		_exit(millstream_v1_barrier(c) == MILLSTREAM_FORKED && strstr(millstream_v1_last_error(), "fork") ? 17 : 18);
	int status = 0;
	WANT(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 17);
	WANT(millstream_v1_abi() == MILLSTREAM_ABI && strlen(millstream_v1_release()) > 0);
}

static double now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void die(millstream_v1_comm c, int me) {
	int code = millstream_v1_barrier(c), rank;
	/* Rank 2 may have ended before the others leave the barrier. */
	WANT(code == MILLSTREAM_OK || (me != 2 && code == MILLSTREAM_RANK));
	if (me == 2)
		raise(SIGKILL);
	int64_t x = 1;
	double begin = now();
	while (code == MILLSTREAM_OK)
		code = millstream_v1_allreduce(c, &x, &x, 1, MILLSTREAM_INT64, MILLSTREAM_MAX);
	double failed = now();
	char *lost;
	WANT(code == MILLSTREAM_RANK);
	DO(millstream_v1_failed_rank(c, &rank));
	DO(millstream_v1_name(c, rank, &lost));
	printf("lost %d %s: %s\n", rank, lost, millstream_v1_last_error());
	millstream_v1_free(lost);
	millstream_v1_comm again = 0;
	int ranks;
	WANT(millstream_v1_reform(c, 0, &again) == MILLSTREAM_INVALID);
	double start = now();
	DO(millstream_v1_reform(c, 300, &again));
	printf("%.1f ms until the loss was reported, %.1f ms to reform\n", 1e3 * (failed - begin), 1e3 * (now() - start));
	DO(millstream_v1_destroy(c));
	DO(millstream_v1_rank(again, &rank, &ranks));
	x = 1;
	DO(millstream_v1_allreduce(again, &x, &x, 1, MILLSTREAM_INT64, MILLSTREAM_SUM));
	printf("reformed: rank %d of %d, sum %d\n", rank, ranks, (int)x);
	DO(millstream_v1_destroy(again));
}

/* Runs the algorithm of a shared library on columns of which rank 0 has none. */
static void algorithm(millstream_v1_comm c, int me, int n, const char *path) {
	double x[2][3] = {{me, 1, 2}, {10, 20, 30.5}}, y[2][1] = {{me}, {5}};
	millstream_v1_column columns[4] = {{x[0], 3, MILLSTREAM_FLOAT64, 0}, {x[1], 3, MILLSTREAM_FLOAT64, MILLSTREAM_HOST},
		{y[0], 1, MILLSTREAM_FLOAT64, 0}, {y[1], 1, MILLSTREAM_FLOAT64, 0}};
	uint32_t ncolumns[2] = {2, 2};
	millstream_v1_algorithm a = {.size = sizeof a, .npartitions = me == 0 ? 0 : 2, .library = path, .name = "sums",
		.ncolumns = ncolumns, .columns = columns, .parameters = "all", .parameter_bytes = 3};
	millstream_v1_results r;
	DO(millstream_v1_native(c, &a, &r));
	WANT(r.ncolumns == 2 && r.columns[0].count == 1 && r.columns[0].dtype == MILLSTREAM_FLOAT64);
	const double *first = r.columns[0].data, *second = r.columns[1].data;
	WANT(*first == n * (n - 1) + 3 * (n - 1) && *second == 65.5 * (n - 1));
	DO(millstream_v1_free_results(&r));
	DO(millstream_v1_free_results(&r)); /* does nothing */
	a.size = 1;
	WANT(millstream_v1_native(c, &a, &r) == MILLSTREAM_INVALID);
	a.size = sizeof a;
	if (me == 1)
		a.name = "missing";
	/* Rank 1 may have failed before the others leave the barrier. */
	int code = millstream_v1_barrier(c);
	WANT(code == MILLSTREAM_OK || (me != 1 && code == MILLSTREAM_RANK));
	if (code == MILLSTREAM_OK)
		code = millstream_v1_native(c, &a, &r);
	WANT(code == (me == 1 ? MILLSTREAM_ERROR : MILLSTREAM_RANK)); /* the communicator has ended */
	WANT(me != 1 || strstr(millstream_v1_last_error(), "missing") != NULL);
	int rank;
	DO(millstream_v1_failed_rank(c, &rank));
	WANT(rank == 1);
	DO(millstream_v1_destroy(c));
}

int main(int argc, char **argv) {
	if (argc < 4)
		return 2;
	name = argv[1];
	int n = atoi(argv[2]), rounds = atoi(argv[3]), me, ranks, fds = 0, threads = 0;
	long kib = 0;
	for (int round = 0; round < rounds; round++) {
		char id[32];
		snprintf(id, sizeof id, "c-%d", round);
		millstream_v1_comm c = form(id, n);
		DO(millstream_v1_rank(c, &me, &ranks));
		WANT(ranks == n);
		if (argc > 5) {
			algorithm(c, me, n, argv[5]);
			break;
		}
		if (argc > 4) {
			die(c, me);
			break;
		}
		if (round == 0) {
			char *text;
			DO(millstream_v1_backend(c, &text));
			printf("backend %s\n", text);
			millstream_v1_free(text);
			DO(millstream_v1_name(c, me, &text));
			WANT(strcmp(text, name) == 0);
			millstream_v1_free(text);
			collectives(c, me, n);
			messages(c, me, n);
			errors(c, me, n);
			ragged(c, me, n);
			grouped(c, me, n);
			device(c, me);
			split(c, me, n);
			process(c);
		}
		DO(millstream_v1_barrier(c));
		DO(millstream_v1_destroy(c));
		WANT(millstream_v1_barrier(c) == MILLSTREAM_CLOSED);
		if (round == 1) {
			fds = entries("/proc/self/fd");
			threads = entries("/proc/self/task");
		}
		if (round == rounds / 2)
			kib = memory();
	}
	if (rounds > 2) {
		/* Connections end on both sides; the other side may be later. */
		for (int i = 0; i < 6000 && entries("/proc/self/fd") > fds; i++)
			usleep(10000);
		printf("left %d descriptors, %d threads, %ld KiB in %d rounds\n", entries("/proc/self/fd") - fds,
			entries("/proc/self/task") - threads, memory() - kib, rounds - 2);
	}
	printf("done\n");
	return 0;
}
