// Package collective is the engine of cliques: collective operations among a fixed set of processes, over UCX
// (NewUCX) or plain comms (NewComm), and in shared memory where all ranks are on one host.
//
//	t, err := collective.NewComm(rank, peers) // a comm with every other rank
//	g, err := collective.New(ctx, t, collective.Config{})
//	defer g.Close()
//	err = g.AllReduce(ctx, collective.View(gradient), collective.View(gradient), collective.Float32, collective.Sum)
//
// Every rank calls the same collectives in the same order. What differs between their calls is the same
// *MismatchError on all of them, before anything is moved. A rank that dies, leaves or gives up is named in the
// *RankError of every other. How data flows and in which order it is reduced is told in docs/guide/collectives.md.
//
// # Who owns what
//
// A Group owns its transport; the last of a group and its sub-groups (Split, Lane) closes it. Buffers are borrowed
// until a call returns or its Request is done. The state of a collective belongs to whoever has the group's turn.
package collective
