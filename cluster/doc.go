// Package cluster starts clusters: a scheduler in this process with workers in child processes or in goroutines, and
// supervises them.
//
//	func main() {
//		cluster.Main() // first: in a worker process it does not return
//		…
//		c, err := cluster.Local(ctx, cluster.Config{Workers: 4, Threads: 1})
//		if err != nil {
//			return err
//		}
//		defer c.Close()
//		cl, err := c.Client(ctx)
//		…
//		err = c.Scale(ctx, 8)
//		_, err = c.Adapt(cluster.AdaptiveConfig{Minimum: 1, Maximum: 8})
//	}
//
// # Workers in processes
//
// A worker process executes this program (/proc/self/exe) with MILLSTREAM_ROLE set, which [Main] detects. The parent
// writes a [WorkerSpec] to its standard input, which stays open: when it is closed, because the parent has ended for
// any reason, the worker ends. Over another pipe the worker reports that it is registered, its log, and that it ends on
// purpose: a process that exits without such a report has crashed, whatever its exit code. A [Nanny] starts the
// process, reads its output, replaces it after a crash, and shuts it down gracefully, then kills it after a timeout.
// Children inherit no descriptor that a native library has left open.
//
// Control connections use TLS with certificates of a CA whose key stays in the memory of this process; data between
// workers moves over UCX if libucp is found (Config.DataConnections).
//
// [RunWorker] and [StartNanny] do the same for workers of a scheduler that runs elsewhere: the command `millstream
// worker` uses them.
package cluster
