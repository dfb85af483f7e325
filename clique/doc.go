// Package clique runs collectives, such as all-reduce, among workers of a running cluster, whether a Millstream or a
// Dask scheduler started it. It needs no launcher and no MPI: the cluster distributes the addresses.
//
//	var norm = clique.Func("norm", func(ctx context.Context, r *clique.Rank, part []float64) (float64, error) {
//		sum := []float64{0}
//		for _, x := range part {
//			sum[0] += x * x
//		}
//		err := r.Do(ctx, clique.AllReduce(clique.Of(sum), clique.Of(sum), clique.Sum))
//		return math.Sqrt(sum[0]), err
//	})
//
//	q, err := clique.Form(ctx, c, clique.Options{})      // all workers of the cluster
//	defer q.Dissolve(ctx)
//	norms, err := norm.Run(ctx, q, parts)                // one part and one result for each rank
//
// # Rounds
//
// A clique stays on its workers between tasks. Each round of tasks has a [Ticket]. Fn.Run and Fn.Submit create one;
// other tasks call [Join] or [Do] with it. Any number of rounds and of cliques can run at the same time.
//
// # Backends
//
// Data uses UCX if every rank has it, which means shared memory on one host, and otherwise connections like those of
// the workers. UCX does not encrypt: its data leaves the machine only if every worker was started with
// --data-connections=trusted. Results are the same; see Options.Deterministic for bitwise equality.
//
// # Failure
//
// When a rank is lost, or its function fails, every operation of every other rank returns a *RankError that names it.
// The clique has then ended; Clique.Reform forms a new one from the survivors, with or without replacements. If ranks
// call different collectives, or use different sizes, types or roots, all of them get the same *MismatchError and the
// clique remains usable.
package clique
