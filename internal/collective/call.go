package collective

import (
	"fmt"
	"unsafe"

	"go.millstream.dev/internal/collective/elem"
	"go.millstream.dev/mem"
)

// Code identifies an operation of a group. The numbers of collectives are sent between processes.
type Code uint8

// Operations. Send, Recv and SendRecv are between two ranks, all others are collectives.
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
	Send // not sent between processes
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

// Memory is the memory that an operation reads or writes: bytes that the host can access or, if Buffer is set, a buffer
// in any kind of memory. The zero value is no memory, for a rank that does not take part in one side of an operation.
type Memory struct {
	Bytes  []byte
	Buffer *mem.Buffer
}

// Call is one operation with its arguments, for every kind of memory and of elements.
//
//	AllReduce       combines Send of all ranks with Op and stores the result in Recv of every rank; Recv may be Send
//	Reduce          AllReduce with the result on Root only; the other ranks ignore Recv
//	Broadcast       copies the memory of Root, in both Send and Recv, to that of every other rank
//	AllGather       concatenates Send of all ranks, of equal length, in Recv of every rank
//	AllGatherV      AllGather of parts of different lengths, by Counts, which are the same on every rank
//	Gather          AllGather with the result on Root only; the other ranks ignore Recv
//	GatherV         Gather of parts of different lengths, by Counts, which only Root uses
//	Scatter         sends each rank its part of Send of Root; the other ranks ignore Send
//	ScatterV        Scatter of parts of different lengths, by Counts, which only Root uses
//	ReduceScatter   AllReduce with one part of the result for each rank; Send is as long as Recv of all ranks together
//	AllToAll        sends each rank one part of Send, and stores the parts from the ranks in Recv
//	AllToAllV       AllToAll of parts of different lengths: Counts of Send, RecvCounts of Recv
//	Send            sends Send to rank To with SendTag, all 64 bits of which are compared
//	Recv            receives the next message from rank From with RecvTag into Recv, which may be longer
//	SendRecv        does both concurrently, so that neither waits for the other
//
// Send may be the part of this rank in Recv, or Recv its part in Send, where one is a part of the other.
//
// Messages with the same tag arrive in order. Send returns when its memory may be used again; for more than a few KiB
// the other rank has received the message then. A rank may send to itself if it receives concurrently. A message that
// is longer than Recv is lost, with a *TruncatedError on both sides.
type Call struct {
	Code       Code
	Kind       Kind
	Op         Op
	Root       int
	Send, Recv Memory
	// Counts are in elements: those of the ranks in a V form, those of Send in AllToAllV. RecvCounts are those of Recv
	// in AllToAllV.
	Counts, RecvCounts []int
	// To and From are the ranks of a message, with its tags.
	To, From         int
	SendTag, RecvTag uint64
	// N, if set, is set to the number of elements that Recv or SendRecv has received.
	N *int
	// Busy, if set, is set to the event after which the device no longer uses the memory of the call. It stays nil if
	// that is the ready event of Recv.
	Busy *mem.Event
	// Invalid, if not empty, is why the caller considers its arguments invalid. All ranks get it as a *MismatchError.
	Invalid string
	// OnDevice is set for a call that the Carrier of the group runs: one with a buffer that the host cannot access.
	OnDevice bool

	upwards bool // reduce from rank 0 upward, as on a device
}

// extents returns the addresses and lengths of both sides.
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

// describe returns the header of a call, and the reason if the call is invalid.
func (c *Call) describe(rank, size int) (h header, bad string) {
	h = header{code: c.Code, kind: c.Kind, op: elem.CodeOf(c.Op), root: int32(c.Root)}
	es := c.Kind.Size()
	switch {
	case c.Invalid != "":
		return h, c.Invalid
	case es == 0:
		return h, fmt.Sprintf("unknown element type %d", c.Kind)
	case c.reduces() && !c.Op.Valid():
		return h, fmt.Sprintf("unknown operation %d", elem.CodeOf(c.Op))
	case c.reduces() && elem.CodeOf(c.Op) == elem.OpPreMulSum && elem.ScaleKind(c.Op) != c.Kind:
		return h, fmt.Sprintf("the scale of PreMulSum is %v, the elements are %v", elem.ScaleKind(c.Op), c.Kind)
	case c.rooted() && (c.Root < 0 || c.Root >= size):
		return h, fmt.Sprintf("root %d is not a rank of %d", c.Root, size)
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
			bad = fmt.Sprintf("send has %d bytes, want equal parts of whole elements for %d ranks", send, size)
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
		bad = fmt.Sprintf("%d bytes are not a multiple of the size of %v", h.count, c.Kind)
	}
	if bad == "" && overlap(c, from, to, rank, isRoot) {
		bad = "send and recv overlap"
	}
	return h, bad
}

// checkCounts checks that there is one count for each rank, and that the counts add up to the buffer.
func checkCounts(name string, counts []int, size int, buf string, have, es int) string {
	if len(counts) != size {
		return fmt.Sprintf("%s has %d entries, want one for each of %d ranks", name, len(counts), size)
	}
	total := 0
	for r, n := range counts {
		if n < 0 || n > maxCount/es {
			return fmt.Sprintf("%s[%d] is %d", name, r, n)
		}
		total += n
	}
	if total*es != have {
		return fmt.Sprintf("%s has %d bytes, want %d, the sum of %s", buf, have, total*es, name)
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
		return s != r+uintptr(countBefore(c.Counts, rank)*c.Kind.Size())
	case ScatterV:
		return isRoot && r != s+uintptr(countBefore(c.Counts, rank)*c.Kind.Size())
	}
	return true
}

// countBefore returns the sum of the counts of lower ranks.
func countBefore(counts []int, rank int) int {
	n := 0
	for _, c := range counts[:rank] {
		n += c
	}
	return n
}

// payload returns the memory that is sent along with the header of a small call.
func (c *Call) payload(rank int) []byte {
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
