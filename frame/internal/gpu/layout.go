package gpu

import "unsafe"

const (
	// MaxKeys is the largest number of keys of a verb.
	MaxKeys = 8
	// MaxPartitions is the largest number of partitions of Partition.
	MaxPartitions = 512
)

// Structures of the kernels, see internal/device/kernels/table.cuh and the sources that use it.

const (
	maxKeys    = MaxKeys
	maxStates  = 14
	maxResults = 16
	maxMoves   = 32
	maxParts   = MaxPartitions
	tileRows   = 4096 // of rows_count and rows_select
	sortTile   = 3072 // of sort_pass
	ownWords   = 5120 // of group_add_few
	noNullBit  = 255
	noRow      = 1<<32 - 1
)

type columnArg struct {
	data, valid uint64
	kind, _     uint32
}

type keysArg struct {
	count, packed         uint32
	columns               [maxKeys]columnArg
	shift, width, nullBit [maxKeys]uint8
}

type movesArg struct {
	count, _ uint32
	from, to [maxMoves]uint64
	width    [maxMoves]uint8
}

type stateArg struct {
	column columnArg
	op, _  uint32
}

type groupArg struct {
	keys                                keysArg
	rows, _, mask, slots, counts, limit uint64
	states, own                         uint32
	state                               [maxStates]stateArg
}

type resultArg struct {
	data, valid          uint64
	kind, op, a, b, n, _ uint32
}

type groupResultArg struct {
	group             groupArg
	taken, overflow   uint64
	keyData, keyValid [maxKeys]uint64
	results, _        uint32
	result            [maxResults]resultArg
}

type joinArg struct {
	build, probe                                    keysArg
	buildRows, mask, slots, slotOf, list, used, hit uint64
}

// bytesOf returns the memory of a structure without pointers.
func bytesOf[T any](v *T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(v)), unsafe.Sizeof(*v))
}

// view returns host memory as numbers.
func view[T uint8 | uint32 | uint64](b []byte) []T {
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(*new(T))))
}
