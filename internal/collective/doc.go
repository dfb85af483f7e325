// Package collective implements collective operations among a fixed set of processes, over UCX (transport.NewUCX) or
// plain comms (transport.NewComm), and in shared memory if all ranks are on one host. Package clique is its user.
//
//	t, err := transport.NewComm(rank, peers) // peers has a comm to every other rank
//	g, err := collective.New(ctx, t, collective.Config{})
//	defer g.Close()
//	gradient := collective.Memory{Bytes: elem.View(values)}
//	err = g.Do(ctx, collective.Call{Code: collective.AllReduce, Kind: collective.Float32, Op: collective.Sum,
//		Send: gradient, Recv: gradient})
//
// Every rank calls the same collectives in the same order. If the calls differ, all ranks get the same *MismatchError
// before data is moved. A rank that is lost, closed or aborted is named in the *RankError of every other rank.
// docs/guide/collectives.md describes the algorithms and the order of reductions.
//
// # Ownership
//
// A Group owns its transport; the last one of a group and its sub-groups (Split, Dup) closes it. Buffers must not be
// used until a call returns or its Request is done. The state of a collective belongs to the goroutine that has the
// turn of the group.
package collective
