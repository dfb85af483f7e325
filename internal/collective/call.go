package collective

import (
	"fmt"
	"unsafe"
)

// callCode is a collective. The numbers travel between processes.
type callCode uint8

const (
	callBarrier callCode = 1 + iota
	callAllReduce
	callReduce
	callBroadcast
	callAllGather
	callAllGatherV
	callGather
	callGatherV
	callScatter
	callScatterV
	callReduceScatter
	callAllToAll
	callAllToAllV
	callSplit
	callSetup
)

var callNames = [...]string{callBarrier: "Barrier", callAllReduce: "AllReduce", callReduce: "Reduce", callBroadcast: "Broadcast",
	callAllGather: "AllGather", callAllGatherV: "AllGatherV", callGather: "Gather", callGatherV: "GatherV", callScatter: "Scatter",
	callScatterV: "ScatterV", callReduceScatter: "ReduceScatter", callAllToAll: "AllToAll", callAllToAllV: "AllToAllV",
	callSplit: "Split", callSetup: "New"}

func (c callCode) String() string {
	if c < callBarrier || c > callSetup {
		return fmt.Sprintf("collective(%d)", uint8(c))
	}
	return callNames[c]
}

// call is one collective with its arguments.
type call struct {
	code            callCode
	kind            Kind
	op              Op
	root            int
	send, recv      []byte
	counts, counts2 []int
	device          *DeviceCall // nil for host memory, else in place of send and recv
	upwards         bool        // reduce from rank 0 upwards, as on a device
}

// extents are the memory of both sides, wherever it is.
func (c *call) extents() (send, recv extent) {
	if c.device != nil {
		return extentOf(c.device.Send), extentOf(c.device.Recv)
	}
	at := func(b []byte) extent { return extent{uintptr(unsafe.Pointer(unsafe.SliceData(b))), len(b)} }
	return at(c.send), at(c.recv)
}

func (c *call) reduces() bool {
	return c.code == callAllReduce || c.code == callReduce || c.code == callReduceScatter
}

func (c *call) rooted() bool {
	switch c.code {
	case callReduce, callBroadcast, callGather, callGatherV, callScatter, callScatterV:
		return true
	}
	return false
}

// describe makes the header of a call, and says what is wrong with the call if something is.
func (c *call) describe(rank, size int) (h header, bad string) {
	h = header{code: c.code, kind: c.kind, op: c.op.code, root: int32(c.root)}
	es := c.kind.Size()
	switch {
	case es == 0:
		return h, fmt.Sprintf("there is no element type %d", c.kind)
	case c.reduces() && !c.op.Valid():
		return h, fmt.Sprintf("there is no operation %d", c.op.code)
	case c.reduces() && c.op.code == opPreMulSum && c.op.kind != c.kind:
		return h, fmt.Sprintf("the scale of PreMulSum is %v, the elements are %v", c.op.kind, c.kind)
	case c.rooted() && (c.root < 0 || c.root >= size):
		return h, fmt.Sprintf("root %d is not one of the %d ranks", c.root, size)
	}
	isRoot := c.rooted() && c.root == rank
	from, to := c.extents()
	send, recv := from.len, to.len
	want := func(what string, have, need int) string {
		if have == need {
			return ""
		}
		return fmt.Sprintf("%s has %d bytes, want %d", what, have, need)
	}
	switch c.code {
	case callAllReduce:
		h.count, bad = uint64(send), want("recv", recv, send)
	case callReduce:
		h.count = uint64(send)
		if isRoot {
			bad = want("recv", recv, send)
		}
	case callBroadcast, callSetup, callSplit:
		h.count = uint64(send)
	case callAllGather:
		h.count, bad = uint64(send), want("recv", recv, send*size)
	case callGather:
		h.count = uint64(send)
		if isRoot {
			bad = want("recv", recv, send*size)
		}
	case callScatter:
		h.count = uint64(recv)
		if isRoot {
			bad = want("send", send, recv*size)
		}
	case callReduceScatter:
		h.count, bad = uint64(recv), want("send", send, recv*size)
	case callAllToAll:
		h.count, bad = uint64(send/size), want("recv", recv, send)
		if bad == "" && send%(size*es) != 0 {
			bad = fmt.Sprintf("send has %d bytes, want one part of whole elements for each of %d ranks", send, size)
		}
	case callAllGatherV:
		h.count, h.vec, bad = uint64(send), uint32(size), checkCounts("counts", c.counts, size, "recv", recv, es)
		if bad == "" {
			bad = want("send", send, c.counts[rank]*es)
		}
	case callGatherV:
		h.count = uint64(send)
		if isRoot {
			h.vec, bad = uint32(size), checkCounts("counts", c.counts, size, "recv", recv, es)
		}
	case callScatterV:
		h.count = uint64(recv)
		if isRoot {
			h.vec, bad = uint32(size), checkCounts("counts", c.counts, size, "send", send, es)
		}
	case callAllToAllV:
		h.vec, bad = uint32(2*size), checkCounts("sendCounts", c.counts, size, "send", send, es)
		if bad == "" {
			bad = checkCounts("recvCounts", c.counts2, size, "recv", recv, es)
		}
	}
	if bad == "" && h.count%uint64(es) != 0 {
		bad = fmt.Sprintf("%d bytes are not a number of elements of %v", h.count, c.kind)
	}
	if bad == "" && overlap(c, from, to, rank, isRoot) {
		bad = "send and recv overlap"
	}
	return h, bad
}

// checkCounts wants one count for each rank, together as long as the buffer.
func checkCounts(name string, counts []int, size int, buf string, have, es int) string {
	if len(counts) != size {
		return fmt.Sprintf("%s has %d numbers, want one for each of %d ranks", name, len(counts), size)
	}
	total := 0
	for r, n := range counts {
		if n < 0 || n > maxCount/es {
			return fmt.Sprintf("%s[%d] is %d", name, r, n)
		}
		total += n
	}
	if total*es != have {
		return fmt.Sprintf("%s has %d bytes, want the %d of %s", buf, have, total*es, name)
	}
	return ""
}

// overlap reports whether send and recv share memory in a way that the call does not allow.
func overlap(c *call, send, recv extent, rank int, isRoot bool) bool {
	if send.len == 0 || recv.len == 0 {
		return false
	}
	s, r := send.addr, recv.addr
	if s >= recv.end() || r >= send.end() {
		return false
	}
	switch c.code {
	case callBroadcast:
		return false
	case callAllReduce:
		return s != r
	case callReduce:
		return isRoot && s != r
	case callAllGather:
		return s != r+uintptr(rank*send.len)
	case callGather:
		return isRoot && s != r+uintptr(rank*send.len)
	case callScatter:
		return isRoot && r != s+uintptr(rank*recv.len)
	case callReduceScatter:
		return r != s+uintptr(rank*recv.len)
	case callAllGatherV, callGatherV:
		if c.code == callGatherV && !isRoot {
			return false
		}
		return s != r+uintptr(before(c.counts, rank)*c.kind.Size())
	case callScatterV:
		return isRoot && r != s+uintptr(before(c.counts, rank)*c.kind.Size())
	}
	return true
}

// before is the sum of the counts of lower ranks.
func before(counts []int, rank int) int {
	n := 0
	for _, c := range counts[:rank] {
		n += c
	}
	return n
}

// contributed is the memory that goes out with a call that is small.
func (c *call) contributed(rank int) []byte {
	switch c.code {
	case callBarrier:
		return nil
	case callBroadcast, callScatter, callScatterV:
		if c.root != rank {
			return nil
		}
	}
	return c.send
}
