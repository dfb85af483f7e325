package collective

import (
	"fmt"
	"unsafe"

	"go.millstream.dev/internal/collective/elem"
	"go.millstream.dev/mem"
)

// Code is an operation of a group. The numbers of collectives travel between processes.
type Code uint8

// The operations. Send, Recv and SendRecv are between two ranks, all others are collectives.
const (
	Barrier Code = 1 + iota
	AllReduce
	Reduce
	Broadcast
	AllGather
	AllGatherV
	Gather
	GatherV
	Scatter
	ScatterV
	ReduceScatter
	AllToAll
	AllToAllV
	codeSplit
	codeSetup
	Send // not sent itself
	Recv
	SendRecv
)

var codeNames = [...]string{Barrier: "Barrier", AllReduce: "AllReduce", Reduce: "Reduce", Broadcast: "Broadcast",
	AllGather: "AllGather", AllGatherV: "AllGatherV", Gather: "Gather", GatherV: "GatherV", Scatter: "Scatter",
	ScatterV: "ScatterV", ReduceScatter: "ReduceScatter", AllToAll: "AllToAll", AllToAllV: "AllToAllV",
	codeSplit: "Split", codeSetup: "New", Send: "Send", Recv: "Recv", SendRecv: "SendRecv"}

// String returns the name of the operation.
func (c Code) String() string {
	if c < Barrier || c > SendRecv {
		return fmt.Sprintf("collective(%d)", uint8(c))
	}
	return codeNames[c]
}

// Memory is what an operation reads or writes: bytes that the host reaches or, if Buffer is set, a buffer of any kind
// of memory. The zero value is no memory, which is what a rank gives that has no part in one side of an operation.
type Memory struct {
	Bytes  []byte
	Buffer *mem.Buffer
}

// Call is one operation with its arguments, the same declaration for every kind of memory and of elements.
//
//	AllReduce       the elements of all ranks' Send, put together by Op, in every rank's Recv, which may be Send
//	Reduce          AllReduce whose result only Root gets; Recv is not looked at elsewhere
//	Broadcast       Root's memory, in both Send and Recv, copied to that of every other rank
//	AllGather       the ranks' Send, all of one length, one behind the other in every rank's Recv
//	AllGatherV      AllGather of parts that differ in length, by Counts, which are the same on every rank
//	Gather          AllGather whose result only Root gets; Recv is not looked at elsewhere
//	GatherV         Gather of parts that differ in length, by Counts, which are looked at on Root only
//	Scatter         to each rank its part of Root's Send, which is not looked at elsewhere
//	ScatterV        Scatter of parts that differ in length, by Counts, which are looked at on Root only
//	ReduceScatter   each rank's part of the result of AllReduce; Send is as long as all ranks' Recv together
//	AllToAll        one part of Send for each rank, and in Recv what the ranks have for this one
//	AllToAllV       AllToAll of parts that differ in length: Counts of Send, RecvCounts of Recv
//	Send            Send to rank To, with SendTag; all 64 bits of it count
//	Recv            the next message from rank From with RecvTag, in Recv, which may be longer
//	SendRecv        both at once, so that neither waits for the other
//
// Send may be the rank's own place in Recv, or Recv in Send, where one is a part of the other.
//
// A message arrives in the order of the others with its tag. Send returns when its memory may be used again, which for
// more than a few KiB means that the other rank has it. A rank may send to itself, if it receives meanwhile. A message
// that is longer than Recv is lost, with a *TruncatedError on both sides.
type Call struct {
	Code       Code
	Kind       Kind
	Op         Op
	Root       int
	Send, Recv Memory
	// Counts are in elements: the ranks' of a V form, AllToAllV's of Send. RecvCounts are AllToAllV's of Recv.
	Counts, RecvCounts []int
	// To and From are the ranks of a message, with its tags.
	To, From         int
	SendTag, RecvTag uint64
	// N, if set, gets the number of elements that Recv or SendRecv has received.
	N *int
	// OnDevice is set for a call that the group's Carrier does: one with a buffer that the host does not reach.
	OnDevice bool

	upwards bool // reduce from rank 0 upwards, as on a device
}

// extents are the memory of both sides, wherever it is.
func (c *Call) extents() (send, recv extent) {
	if c.OnDevice {
		return extentOf(c.Send.Buffer), extentOf(c.Recv.Buffer)
	}
	at := func(b []byte) extent { return extent{uintptr(unsafe.Pointer(unsafe.SliceData(b))), len(b)} }
	return at(c.Send.Bytes), at(c.Recv.Bytes)
}

func (c *Call) reduces() bool {
	return c.Code == AllReduce || c.Code == Reduce || c.Code == ReduceScatter
}

func (c *Call) rooted() bool {
	switch c.Code {
	case Reduce, Broadcast, Gather, GatherV, Scatter, ScatterV:
		return true
	}
	return false
}

// describe makes the header of a call, and says what is wrong with the call if something is.
func (c *Call) describe(rank, size int) (h header, bad string) {
	h = header{code: c.Code, kind: c.Kind, op: elem.CodeOf(c.Op), root: int32(c.Root)}
	es := c.Kind.Size()
	switch {
	case es == 0:
		return h, fmt.Sprintf("there is no element type %d", c.Kind)
	case c.reduces() && !c.Op.Valid():
		return h, fmt.Sprintf("there is no operation %d", elem.CodeOf(c.Op))
	case c.reduces() && elem.CodeOf(c.Op) == elem.OpPreMulSum && elem.ScaleKind(c.Op) != c.Kind:
		return h, fmt.Sprintf("the scale of PreMulSum is %v, the elements are %v", elem.ScaleKind(c.Op), c.Kind)
	case c.rooted() && (c.Root < 0 || c.Root >= size):
		return h, fmt.Sprintf("root %d is not one of the %d ranks", c.Root, size)
	}
	isRoot := c.rooted() && c.Root == rank
	from, to := c.extents()
	send, recv := from.len, to.len
	want := func(what string, have, need int) string {
		if have == need {
			return ""
		}
		return fmt.Sprintf("%s has %d bytes, want %d", what, have, need)
	}
	switch c.Code {
	case AllReduce:
		h.count, bad = uint64(send), want("recv", recv, send)
	case Reduce:
		h.count = uint64(send)
		if isRoot {
			bad = want("recv", recv, send)
		}
	case Broadcast, codeSetup, codeSplit:
		h.count = uint64(send)
	case AllGather:
		h.count, bad = uint64(send), want("recv", recv, send*size)
	case Gather:
		h.count = uint64(send)
		if isRoot {
			bad = want("recv", recv, send*size)
		}
	case Scatter:
		h.count = uint64(recv)
		if isRoot {
			bad = want("send", send, recv*size)
		}
	case ReduceScatter:
		h.count, bad = uint64(recv), want("send", send, recv*size)
	case AllToAll:
		h.count, bad = uint64(send/size), want("recv", recv, send)
		if bad == "" && send%(size*es) != 0 {
			bad = fmt.Sprintf("send has %d bytes, want one part of whole elements for each of %d ranks", send, size)
		}
	case AllGatherV:
		h.count, h.vec, bad = uint64(send), uint32(size), checkCounts("counts", c.Counts, size, "recv", recv, es)
		if bad == "" {
			bad = want("send", send, c.Counts[rank]*es)
		}
	case GatherV:
		h.count = uint64(send)
		if isRoot {
			h.vec, bad = uint32(size), checkCounts("counts", c.Counts, size, "recv", recv, es)
		}
	case ScatterV:
		h.count = uint64(recv)
		if isRoot {
			h.vec, bad = uint32(size), checkCounts("counts", c.Counts, size, "send", send, es)
		}
	case AllToAllV:
		h.vec, bad = uint32(2*size), checkCounts("sendCounts", c.Counts, size, "send", send, es)
		if bad == "" {
			bad = checkCounts("recvCounts", c.RecvCounts, size, "recv", recv, es)
		}
	}
	if bad == "" && h.count%uint64(es) != 0 {
		bad = fmt.Sprintf("%d bytes are not a number of elements of %v", h.count, c.Kind)
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
func overlap(c *Call, send, recv extent, rank int, isRoot bool) bool {
	if send.len == 0 || recv.len == 0 {
		return false
	}
	s, r := send.addr, recv.addr
	if s >= recv.end() || r >= send.end() {
		return false
	}
	switch c.Code {
	case Broadcast:
		return false
	case AllReduce:
		return s != r
	case Reduce:
		return isRoot && s != r
	case AllGather:
		return s != r+uintptr(rank*send.len)
	case Gather:
		return isRoot && s != r+uintptr(rank*send.len)
	case Scatter:
		return isRoot && r != s+uintptr(rank*recv.len)
	case ReduceScatter:
		return r != s+uintptr(rank*recv.len)
	case AllGatherV, GatherV:
		if c.Code == GatherV && !isRoot {
			return false
		}
		return s != r+uintptr(before(c.Counts, rank)*c.Kind.Size())
	case ScatterV:
		return isRoot && r != s+uintptr(before(c.Counts, rank)*c.Kind.Size())
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
func (c *Call) contributed(rank int) []byte {
	switch c.Code {
	case Barrier:
		return nil
	case Broadcast, Scatter, ScatterV:
		if c.Root != rank {
			return nil
		}
	}
	return c.Send.Bytes
}
