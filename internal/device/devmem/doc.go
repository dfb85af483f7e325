// Package devmem is the GPU memory of one process of a cluster: a worker's, a scheduler's or a
// client's. It makes what the options of RMM ask for out of packages cuda and mem, moves
// buffers between the GPU and host memory through a pinned ring, and shows all of it as metrics.
//
//	m, err := devmem.Open(devmem.Config{PoolSize: 30 << 30, Log: "rmm_log_0.txt"})
//	b, err := m.Resource().Alloc(ctx, 1<<20)
//	host, err := m.Down(ctx, b)
//	…
//	err = m.Close()
package devmem
