/* All-reduce of Open MPI, for `millstream bench allreduce`: SECONDS SIZE..., prints one line of JSON for each size
 * from rank 0. Built by scripts/setup collectives. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static double calls(const float *send, float *recv, int n, long k)
{
	MPI_Barrier(MPI_COMM_WORLD);
	double begin = MPI_Wtime();
	for (long i = 0; i < k; i++)
		MPI_Allreduce(send, recv, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
	return MPI_Wtime() - begin;
}

int main(int argc, char **argv)
{
	int rank, size;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	double seconds = argc > 1 ? atof(argv[1]) : 0.1;
	for (int a = 2; a < argc; a++) {
		long bytes = atol(argv[a]);
		int n = (int)(bytes / 4);
		float *send = malloc(bytes), *recv = malloc(bytes);
		for (int i = 0; i < n; i++)
			send[i] = (float)(rank + 1), recv[i] = 0;
		calls(send, recv, n, 2);
		double warm = calls(send, recv, n, 5);
		long k = (long)(5 * seconds / (warm + 1e-9));
		if (k < 3)
			k = 3;
		MPI_Bcast(&k, 1, MPI_LONG, 0, MPI_COMM_WORLD);
		double took = calls(send, recv, n, k);
		float want = (float)(size * (size + 1) / 2);
		if (recv[0] != want || recv[n / 2] != want || recv[n - 1] != want) {
			fprintf(stderr, "wrong result: %g, want %g\n", recv[n / 2], want);
			MPI_Abort(MPI_COMM_WORLD, 1);
		}
		if (rank == 0) {
			printf("{\"size\":%ld,\"us\":%.3f}\n", bytes, took / k * 1e6);
			fflush(stdout);
		}
		free(send);
		free(recv);
	}
	MPI_Finalize();
	return 0;
}
