package collective

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
)

// call is one collective with its arguments.
type call struct {
	code            callCode
	kind            Kind
	op              Op
	root            int
	send, recv      []byte
	counts, counts2 []int
}
