package collective

import "context"

// Calls on host memory, in few words.

func barrier() Call { return Call{Code: Barrier, Kind: Uint8} }

func on(code Code, send, recv []byte, k Kind) Call {
	return Call{Code: code, Kind: k, Send: Memory{Bytes: send}, Recv: Memory{Bytes: recv}}
}

func (c Call) by(op Op) Call    { c.Op = op; return c }
func (c Call) at(root int) Call { c.Root = root; return c }
func (c Call) counted(counts ...[]int) Call {
	c.Counts, c.RecvCounts = counts[0], counts[len(counts)-1]
	return c
}

func allReduce(send, recv []byte, k Kind, op Op) Call { return on(AllReduce, send, recv, k).by(op) }

func reduce(send, recv []byte, k Kind, op Op, root int) Call {
	return on(Reduce, send, recv, k).by(op).at(root)
}

func broadcast(buf []byte, k Kind, root int) Call { return on(Broadcast, buf, buf, k).at(root) }

func allGather(send, recv []byte, k Kind) Call { return on(AllGather, send, recv, k) }

func allGatherV(send, recv []byte, counts []int, k Kind) Call {
	return on(AllGatherV, send, recv, k).counted(counts)
}

func gather(send, recv []byte, k Kind, root int) Call { return on(Gather, send, recv, k).at(root) }

func gatherV(send, recv []byte, counts []int, k Kind, root int) Call {
	return on(GatherV, send, recv, k).counted(counts).at(root)
}

func scatter(send, recv []byte, k Kind, root int) Call { return on(Scatter, send, recv, k).at(root) }

func scatterV(send, recv []byte, counts []int, k Kind, root int) Call {
	return on(ScatterV, send, recv, k).counted(counts).at(root)
}

func reduceScatter(send, recv []byte, k Kind, op Op) Call {
	return on(ReduceScatter, send, recv, k).by(op)
}

func allToAll(send, recv []byte, k Kind) Call { return on(AllToAll, send, recv, k) }

func allToAllV(send []byte, sendCounts []int, recv []byte, recvCounts []int, k Kind) Call {
	c := on(AllToAllV, send, recv, k).counted(sendCounts)
	c.RecvCounts = recvCounts
	return c
}

func sending(to int, tag uint64, m Memory) Call {
	return Call{Code: Send, Kind: Uint8, To: to, SendTag: tag, Send: m}
}

func receiving(from int, tag uint64, m Memory) Call {
	return Call{Code: Recv, Kind: Uint8, From: from, RecvTag: tag, Recv: m}
}

// received is a Recv that says how much came.
func received(ctx context.Context, g *Group, from int, tag uint64, m Memory) (n int, err error) {
	c := receiving(from, tag, m)
	c.N = &n
	err = g.Do(ctx, c)
	return n, err
}

func sendRecv(ctx context.Context, g *Group, to int, tag uint64, send []byte, from int, recv []byte) (n int,
	err error) {
	err = g.Do(ctx, Call{Code: SendRecv, Kind: Uint8, To: to, SendTag: tag, Send: Memory{Bytes: send},
		From: from, RecvTag: tag, Recv: Memory{Bytes: recv}, N: &n})
	return n, err
}
