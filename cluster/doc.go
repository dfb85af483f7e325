// Package cluster starts clusters: a scheduler in this process with workers in processes of
// their own, or as goroutines, and looks after them.
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
// A worker is this program again (/proc/self/exe) with MILLSTREAM_ROLE set; [Main] sees it.
// The parent hands it a [WorkerSpec] over its standard input, which stays open: when it
// ends, because the parent has ended however suddenly, so does the worker. Over another pipe
// the worker reports that it is registered, what it logs, and that it ends on purpose: a
// process that exits without such a farewell has died, whatever its exit code. A [Nanny]
// starts the process, reads its output, replaces it when it dies, and shuts it down
// gracefully, then kills it after a timeout. No descriptor that a native library has left
// open reaches a child.
//
// Control is TLS with certificates of a CA that lives in the memory of this process; data
// between workers moves over UCX where libucp is found (Config.DataConnections).
//
// [RunWorker] and [StartNanny] are the same for workers of a scheduler that runs elsewhere:
// the command `millstream worker` is made of them.
package cluster
