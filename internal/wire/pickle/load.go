package pickle

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

// Load reads one pickle of protocol 0 to 5 into an inert tree. Nothing is imported, called or executed. buffers are the
// out-of-band buffers of protocol 5 in their order; nil if there are none. Data after the pickle's end is ignored, as
// in Python.
//
// bytes, bytearray and buffer nodes borrow from data and buffers, which must not change while the tree is in use.
// Strings are copies.
func Load(data []byte, buffers [][]byte, lim Limits) (Value, error) {
	v, _, err := LoadNext(data, buffers, lim)
	return v, err
}

// LoadNext is Load for data that may be followed by other data: n is the number of bytes read.
func LoadNext(data []byte, buffers [][]byte, lim Limits) (v Value, n int, err error) {
	l := loader{data: data, buffers: buffers, lim: lim.withDefaults()}
	l.keyWork = 64*len(data) + 1<<20
	v, err = l.run()
	if err == nil && l.containers > l.lim.Depth {
		// With fewer containers than allowed levels there is nothing to measure.
		if err = checkDepth(v, l.lim.Depth); err != nil {
			err = &Error{Op: "STOP", Offset: l.start, Err: err}
		}
	}
	if err != nil {
		return nil, l.pos, err
	}
	return v, l.pos, nil
}

// loader is the stack machine of one Load. It belongs to the goroutine that runs it.
type loader struct {
	data    []byte
	buffers [][]byte
	lim     Limits

	pos   int // of the next byte
	start int // of the current opcode
	proto int // as PROTO said; it decides about Python 2's names

	stack []Value
	marks []int // places in the stack
	fence int   // the last mark: nothing below is in reach

	memo     []Value          // entries that came in order, which is all of them
	sparse   map[uint64]Value // those that did not
	nextBuf  int
	nodes    int // pushes
	strBytes int
	keyWork  int                       // what is left for the comparison of keys
	sets     map[*Set]map[any]struct{} // keys of the sets that have items
	// containers is an upper bound of the depth of the result.
	containers int
}

var (
	errUnderflow = errors.New("nothing is left on the stack")
	errNoMark    = errors.New("there is no mark on the stack")
)

func (l *loader) run() (Value, error) {
	for {
		l.start = l.pos
		if l.pos >= len(l.data) {
			return nil, &Error{Offset: l.pos, Err: fmt.Errorf("the pickle ends without STOP: %w", io.ErrUnexpectedEOF)}
		}
		op := l.data[l.pos]
		l.pos++
		if op == opStop {
			v, err := l.pop()
			if err != nil {
				return nil, &Error{Op: "STOP", Offset: l.start, Err: err}
			}
			return v, nil
		}
		if err := l.step(op); err != nil {
			return nil, &Error{Op: opName(op), Offset: l.start, Err: err}
		}
	}
}

// step executes one opcode.
func (l *loader) step(op byte) error {
	switch op {
	case opProto:
		b, err := l.take(1)
		if err != nil {
			return err
		}
		if b[0] > highestProtocol {
			return fmt.Errorf("protocol %d is not known, only 0 to %d are", b[0], highestProtocol)
		}
		l.proto = int(b[0])
	case opFrame:
		n, err := l.uint(8)
		if err != nil {
			return err
		}
		// A frame is a hint for readers of files. Like CPython, require that it is complete.
		if n > uint64(len(l.data)-l.pos) {
			return fmt.Errorf("a frame of %d bytes, %d are left: %w", n, len(l.data)-l.pos, io.ErrUnexpectedEOF)
		}
	case opMark:
		if len(l.marks) >= l.lim.Depth {
			return limitError("Depth", l.lim.Depth)
		}
		l.marks = append(l.marks, len(l.stack))
		l.fence = len(l.stack)
	case opPop:
		return l.discard()
	case opPopMark:
		_, err := l.popMark()
		return err
	case opDup:
		v, err := l.top()
		if err != nil {
			return err
		}
		return l.push(v)
	case opNone:
		return l.push(nil)
	case opNewTrue:
		return l.push(true)
	case opNewFalse:
		return l.push(false)
	case opBinInt1:
		return l.pushUint(1)
	case opBinInt2:
		return l.pushUint(2)
	case opBinInt:
		n, err := l.uint(4)
		if err != nil {
			return err
		}
		return l.push(int64(int32(uint32(n))))
	case opLong1:
		return l.pushLong(1)
	case opLong4:
		return l.pushLong(4)
	case opBinFloat:
		b, err := l.take(8)
		if err != nil {
			return err
		}
		return l.push(math.Float64frombits(binary.BigEndian.Uint64(b)))
	case opShortBinUnicode:
		return l.pushString(1)
	case opBinUnicode:
		return l.pushString(4)
	case opBinUnicode8:
		return l.pushString(8)
	case opShortBinBytes:
		return l.pushBytes(1)
	case opBinBytes:
		return l.pushBytes(4)
	case opBinBytes8:
		return l.pushBytes(8)
	case opByteArray8:
		b, err := l.counted(8)
		if err != nil {
			return err
		}
		return l.push(&ByteArray{Data: b})
	case opNextBuffer:
		if l.nextBuf >= len(l.buffers) {
			return fmt.Errorf("buffer %d is out of band, and %d were given", l.nextBuf, len(l.buffers))
		}
		b := &Buffer{Data: l.buffers[l.nextBuf], Index: l.nextBuf}
		l.nextBuf++
		return l.push(b)
	case opReadOnlyBuffer:
		return l.readOnly()
	case opMemoize, opBinPut, opLongBinPut, opPut:
		return l.memoize(op)
	case opBinGet, opLongBinGet, opGet:
		return l.recall(op)
	case opEmptyTuple, opTuple1, opTuple2, opTuple3, opTuple, opEmptyList, opList, opAppend, opAppends, opEmptyDict,
		opDict,
		opSetItem, opSetItems, opEmptySet, opAddItems, opFrozenSet:
		return l.container(op)
	case opGlobal, opStackGlobal, opReduce, opNewObj, opNewObjEx, opBuild, opInst, opObj, opPersID, opBinPersID:
		return l.object(op)
	case opInt, opLong, opFloat, opString, opBinString, opShortBinString, opUnicode:
		return l.text(op)
	case opExt1, opExt2, opExt4:
		return errors.New("extension codes mean something only to the process that registered them " +
			"(copyreg.add_extension); " +
			"the sender must not use them")
	default:
		return errors.New("not an opcode of any pickle protocol")
	}
	return nil
}

// take returns the next n bytes.
func (l *loader) take(n int) ([]byte, error) {
	if n > len(l.data)-l.pos {
		return nil, fmt.Errorf("%d bytes wanted, %d left: %w", n, len(l.data)-l.pos, io.ErrUnexpectedEOF)
	}
	b := l.data[l.pos : l.pos+n : l.pos+n]
	l.pos += n
	return b, nil
}

// uint reads a little-endian number of 1, 2, 4 or 8 bytes.
func (l *loader) uint(size int) (uint64, error) {
	b, err := l.take(size)
	if err != nil {
		return 0, err
	}
	var n uint64
	for i := len(b) - 1; i >= 0; i-- {
		n = n<<8 | uint64(b[i])
	}
	return n, nil
}

// counted returns bytes after their count of the given size.
func (l *loader) counted(size int) ([]byte, error) {
	n, err := l.uint(size)
	if err != nil {
		return nil, err
	}
	if n > uint64(len(l.data)-l.pos) {
		return nil, fmt.Errorf("%d bytes, %d are left: %w", n, len(l.data)-l.pos, io.ErrUnexpectedEOF)
	}
	return l.take(int(n))
}

// push counts nodes: each push needs at least one byte of the pickle.
func (l *loader) push(v Value) error {
	if l.nodes++; l.nodes > l.lim.Nodes {
		return limitError("Nodes", l.lim.Nodes)
	}
	l.stack = append(l.stack, v)
	return nil
}

func (l *loader) pop() (Value, error) {
	v, err := l.top()
	if err != nil {
		return nil, err
	}
	l.stack[len(l.stack)-1] = nil
	l.stack = l.stack[:len(l.stack)-1]
	return v, nil
}

func (l *loader) top() (Value, error) {
	if len(l.stack) <= l.fence {
		return nil, errUnderflow
	}
	return l.stack[len(l.stack)-1], nil
}

// popMark removes the last mark and returns the values above it, as a part of the stack: to be copied before the next
// push.
func (l *loader) popMark() ([]Value, error) {
	if len(l.marks) == 0 {
		return nil, errNoMark
	}
	at := l.marks[len(l.marks)-1]
	l.unmark()
	items := l.stack[at:]
	l.stack = l.stack[:at]
	return items, nil
}

func (l *loader) unmark() {
	l.marks = l.marks[:len(l.marks)-1]
	l.fence = 0
	if len(l.marks) > 0 {
		l.fence = l.marks[len(l.marks)-1]
	}
}

// discard implements POP, of a value or of a mark with nothing above it. A call whose result is discarded was made for
// its effect: cloudpickle sets the state of functions and classes this way. The effect becomes a step of the first
// argument.
func (l *loader) discard() error {
	if len(l.marks) > 0 && l.fence == len(l.stack) {
		l.unmark()
		return nil
	}
	v, err := l.pop()
	if err != nil {
		return err
	}
	if o, ok := v.(*Object); ok && o.Kind == Reduce && len(o.Args) > 0 && len(o.Steps) == 0 {
		if target, ok := o.Args[0].(*Object); ok && target != o {
			target.Steps = append(target.Steps, Step{Kind: SideCall, Key: o.Func, Value: o.Args[1:]})
		}
	}
	return nil
}
