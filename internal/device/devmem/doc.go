// Package devmem manages the GPU memory of one process of a cluster: a worker, a scheduler or a client. It implements
// the options of RMM with packages cuda and mem, moves buffers between the GPU and pinned host memory,
// and exports metrics.
//
//	m, err := devmem.Open(devmem.Config{PoolSize: 30 << 30, Log: "rmm_log_0.txt"})
//	b, err := m.Resource().Alloc(ctx, 1<<20)
//	host, err := m.Down(ctx, b)
//	…
//	err = m.Close()
package devmem
