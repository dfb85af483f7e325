// Package clique makes workers of a running cluster work together: collectives, such as
// all-reduce, among processes that a scheduler, Millstream's or Dask's, has started. There is
// no launcher and no MPI: the cluster carries the addresses.
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
// A clique lives on its workers between tasks. Each round of tasks has a [Ticket]; Fn.Run and
// Fn.Submit take one, tasks of one's own call [Join] or [Do] with it. Any number of rounds, and
// of cliques, can be under way at once.
//
// # Backends
//
// Data goes over UCX where every rank has it, which means shared memory on one host, and over
// connections like those of the workers otherwise. Lanes of UCX are not encrypted: they leave
// the machine only if every worker was started with --lanes=trusted. Results are the same;
// see Options.Deterministic for their bits.
//
// # Failure
//
// When a rank dies, or its function fails, every operation of every other rank returns a
// *RankError that names it. The clique has then ended: Clique.Reform makes another one of the
// survivors, or with replacements. Ranks that call different collectives, or with different
// sizes, types or roots, all get the same *MismatchError, and the clique lives on.
package clique
