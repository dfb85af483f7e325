package ucp

import "unsafe"

// Sizes of the payload and header areas of a slot, in bytes, and of the endpoint table.
const (
	InlineSize = 1024
	HeaderSize = 128
	epBuckets  = 256

	spareEvents = 256 // events that a worker keeps to use again
)

// Op numbers the operations of a slot. Same order as in shim.h.
type Op uint16

// The operations.
const (
	OpNone Op = iota
	OpTagSend
	OpTagSendSync
	OpTagRecv
	OpTagMsgRecv
	OpStreamSend
	OpStreamRecv
	OpAMSend
	OpAMRecv
	OpPut
	OpGet
	OpAtomic
	OpEPFlush
	OpWorkerFlush
	OpEPClose
	OpCall
	OpCount
)

var opNames = [OpCount]string{
	"none", "tag send", "tag sync send", "tag receive", "tag message receive", "stream send", "stream receive",
	"am send", "am receive", "put", "get", "atomic", "endpoint flush", "worker flush", "endpoint close", "call",
}

// String returns the operation as it appears in errors and statistics.
func (o Op) String() string {
	if o < OpCount {
		return opNames[o]
	}
	return "unknown"
}

// States of a slot.
const (
	Free = iota
	Queued
	Submitting
	Pending
	Done
	Waiting // for its device event; not submitted to UCX yet
)

// Flags of a slot.
const (
	FlagIOV uint32 = 1 << iota
	FlagWaitAll
	FlagReply
	FlagEager
	FlagRndv
	FlagForce
	FlagCanceled
	FlagMultiSend
	FlagEvents
	FlagOrdered
)

// Slot mirrors ms_slot: one operation, in C memory. Pointers to C memory are kept
// as pointers, addresses of payloads as uintptr (the payload may be pinned Go memory).
type Slot struct {
	Next   *Slot
	Worker *Worker
	Index  uint32
	Op     Op
	State  uint8
	Notify uint8
	EP     *EP
	Buf    uintptr
	Len    uint64
	Tag    uint64
	Mask   uint64

	Leader  *Slot
	Memh    unsafe.Pointer
	MemType int32
	Flags   uint32
	Event   uintptr
	Device  int32
	Status  int32
	RTag    uint64
	RLen    uint64
	Req     unsafe.Pointer

	epPrev unsafe.Pointer
	epNext unsafe.Pointer
	Left   uint64
	Serial uint32
	onEP   uint8
	onRkey uint8
	_      [2]byte
	Hdr    uintptr
	HdrLen uint64
	Fn     unsafe.Pointer
	_      uint64

	Inline [InlineSize]byte
	HdrBuf [HeaderSize]byte
	Arg    [3]uint64
	_      [5]uint64
}

// EP mirrors the head of ms_ep; only C looks inside.
type EP struct {
	H unsafe.Pointer
}

// Event types.
const (
	EventEPError = 1 + iota
	EventConnRequest
	EventAM
	EventAMOverflow
)

// How the data of an active message is held.
const (
	AMCopy = iota // in the event's own allocation
	AMDesc        // owned by UCX, valid until released
	AMRndv        // not received yet: a rendezvous descriptor
)

// Event mirrors ms_event.
type Event struct {
	Next    *Event
	Type    uint32
	Status  int32
	ID      uint64
	Ptr     unsafe.Pointer
	Len     uint64
	ReplyEP unsafe.Pointer
	HdrLen  uint32
	AMKind  uint32
	AddrLen uint32
	Spare   uint32
	Hdr     *byte
	Addr    [128]byte
}

// Stats mirrors ms_stats: counters that the token holder writes.
type Stats struct {
	Ops           [OpCount]uint64
	Bytes         [OpCount]uint64
	Errors        uint64
	ProgressCalls uint64
	ProgressHits  uint64
	Drives        uint64
	SpinsWon      uint64
	SpinsLost     uint64
	Arms          uint64
	ArmBusy       uint64
	RingSubmits   uint64
	AMReceived    uint64
	AMBytes       uint64
	AMDropped     uint64
	EPErrors      uint64
	EPCreated     uint64
	EPClosed      uint64
}

// Worker mirrors ms_worker. Token and Submissions are shared and accessed with
// sync/atomic; everything else belongs to the token holder.
type Worker struct {
	Token       uint32
	_           [60]byte
	Submissions unsafe.Pointer // *Slot
	_           [56]byte
	H           unsafe.Pointer
	DoneHead    *Slot
	DoneTail    *Slot
	EvHead      *Event
	EvTail      *Event
	EvSpare     *Event
	EvSpares    uint64
	WaitHead    *Slot
	Failed      unsafe.Pointer
	EFD         int32
	Device      int32
	Inflight    int64
	Unarmed     uint32
	WakeFDPlus1 uint32
	AMQueued    uint64
	AMLimit     uint64
	Activity    uint64
	Gather      uint32
	Gathered    uint32
	Immediate   uint64
	LastSpin    int64
	amArgs      unsafe.Pointer
	rkeys       [3]unsafe.Pointer
	rkeySerial  uint64
	eps         [epBuckets]unsafe.Pointer
	listeners   unsafe.Pointer
	Stats       Stats
}

// NoProgress is the spin of a Drive that only submits.
const NoProgress = -1

// Result bits of Drive and Leave.
const (
	ResultOwn = 1 << iota
	ResultWork
	ResultTimeout
	ResultReleased
	ResultNoArm
)

// Call numbers an infrequent operation that runs under the token. Same order as the table at the end of endpoint.c,
// which also documents the slot fields that each uses.
type Call int

// The calls.
const (
	CallEPCreate Call = iota
	CallEPFail
	CallEPFree
	CallEPQuery
	CallEPText
	CallWorkerText
	CallWorkerAddress
	CallFence
	CallCancel
	CallProbe
	CallRkeyUnpack
	CallRkeyDestroy
	CallListen
	CallConnReject
	CallListenerClose
	CallRequestText
	CallPerf
	CallAMHandler
	CallAMRelease
	CallEPUnsent
	CallUngroup
	CallCount
)

// Features of a context (ucp.h's bits).
const (
	FeatureTag    = 1 << 0
	FeatureRMA    = 1 << 1
	FeatureAMO32  = 1 << 2
	FeatureAMO64  = 1 << 3
	FeatureWakeup = 1 << 4
	FeatureStream = 1 << 5
	FeatureAM     = 1 << 6
)

// Thread modes.
const (
	ThreadSingle = iota
	ThreadSerialized
	ThreadMulti
)
