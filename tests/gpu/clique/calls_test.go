package clique

import (
	"go.millstream.dev/clique"
	"go.millstream.dev/internal/collective"
	"go.millstream.dev/mem"
)

// calls makes calls on buffers of one kind of elements.
type calls interface {
	AllReduce(send, recv *mem.Buffer, op clique.Op) clique.Call
	Reduce(send, recv *mem.Buffer, op clique.Op, root int) clique.Call
	ReduceScatter(send, recv *mem.Buffer, op clique.Op) clique.Call
	Broadcast(b *mem.Buffer, root int) clique.Call
	AllGather(send, recv *mem.Buffer) clique.Call
	Gather(send, recv *mem.Buffer, root int) clique.Call
	Scatter(send, recv *mem.Buffer, root int) clique.Call
	AllToAll(send, recv *mem.Buffer) clique.Call
}

// kinds has the calls of each kind, for tests that run over all of them.
var kinds = map[clique.Kind]calls{
	collective.Int8: callsOf[int8]{}, collective.Int16: callsOf[int16]{}, collective.Int32: callsOf[int32]{},
	collective.Int64: callsOf[int64]{}, collective.Uint8: callsOf[uint8]{}, collective.Uint16: callsOf[uint16]{},
	collective.Uint32: callsOf[uint32]{}, collective.Uint64: callsOf[uint64]{},
	collective.Float16:  callsOf[clique.F16]{},
	collective.BFloat16: callsOf[clique.BF16]{}, collective.Float32: callsOf[float32]{},
	collective.Float64: callsOf[float64]{},
}

type callsOf[T clique.Number] struct{}

func (callsOf[T]) AllReduce(send, recv *mem.Buffer, op clique.Op) clique.Call {
	return clique.AllReduce(clique.Buffer[T](send), clique.Buffer[T](recv), op)
}

func (callsOf[T]) Reduce(send, recv *mem.Buffer, op clique.Op, root int) clique.Call {
	return clique.Reduce(clique.Buffer[T](send), clique.Buffer[T](recv), op, root)
}

func (callsOf[T]) ReduceScatter(send, recv *mem.Buffer, op clique.Op) clique.Call {
	return clique.ReduceScatter(clique.Buffer[T](send), clique.Buffer[T](recv), op)
}

func (callsOf[T]) Broadcast(b *mem.Buffer, root int) clique.Call {
	return clique.Broadcast(clique.Buffer[T](b), root)
}

func (callsOf[T]) AllGather(send, recv *mem.Buffer) clique.Call {
	return clique.AllGather(clique.Buffer[T](send), clique.Buffer[T](recv))
}

func (callsOf[T]) Gather(send, recv *mem.Buffer, root int) clique.Call {
	return clique.Gather(clique.Buffer[T](send), clique.Buffer[T](recv), root)
}

func (callsOf[T]) Scatter(send, recv *mem.Buffer, root int) clique.Call {
	return clique.Scatter(clique.Buffer[T](send), clique.Buffer[T](recv), root)
}

func (callsOf[T]) AllToAll(send, recv *mem.Buffer) clique.Call {
	return clique.AllToAll(clique.Buffer[T](send), clique.Buffer[T](recv))
}

// allReduceOf is an all-reduce of float32 for the engine.
func allReduceOf(send, recv *mem.Buffer, op collective.Op) collective.Call {
	return collective.Call{Code: collective.AllReduce, Kind: collective.Float32, Op: op,
		Send: collective.Memory{Buffer: send}, Recv: collective.Memory{Buffer: recv}}
}

func sending(to int, tag uint64, m collective.Memory) collective.Call {
	return collective.Call{Code: collective.Send, Kind: collective.Uint8, To: to, SendTag: tag, Send: m}
}

func receiving(from int, tag uint64, m collective.Memory) collective.Call {
	return collective.Call{Code: collective.Recv, Kind: collective.Uint8, From: from, RecvTag: tag, Recv: m}
}
