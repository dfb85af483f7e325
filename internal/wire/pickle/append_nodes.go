package pickle

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
)

// counted writes an opcode with a count, the shortest possible.
func (w *writer) counted(n int, short, medium, long byte) {
	switch {
	case n < 1<<8 && short != 0:
		w.b = append(w.b, short, byte(n))
	case uint64(n) <= math.MaxUint32 && medium != 0:
		w.b = binary.LittleEndian.AppendUint32(append(w.b, medium), uint32(n))
	default:
		w.b = binary.LittleEndian.AppendUint64(append(w.b, long), uint64(n))
	}
}

// string writes a str. Python reads only UTF-8 (and lone surrogates), so other bytes are replaced: Go strings may hold
// any bytes, and one invalid byte must not lose a message.
func (w *writer) string(s string) {
	if !validString(s) {
		s = strings.ToValidUTF8(s, "\uFFFD")
	}
	w.counted(len(s), opShortBinUnicode, opBinUnicode, opBinUnicode8)
	w.b = append(w.b, s...)
}

func (w *writer) bytes(b []byte) {
	w.counted(len(b), opShortBinBytes, opBinBytes, opBinBytes8)
	w.b = append(w.b, b...)
}

func (w *writer) byteArray(x *ByteArray) error {
	if w.opts.Protocol >= 5 {
		w.counted(len(x.Data), 0, 0, opByteArray8)
		w.b = append(w.b, x.Data...)
	} else {
		w.globalName("builtins", "bytearray")
		w.bytes(x.Data)
		w.op(opTuple1)
		w.op(opReduce)
	}
	w.remember(x)
	return nil
}

func (w *writer) globalName(module, name string) {
	w.string(module)
	w.string(name)
	w.op(opStackGlobal)
}

// buffer writes a buffer out of band if requested, and otherwise like Python: bytes if it is read-only, a bytearray if
// not.
func (w *writer) buffer(x *Buffer) error {
	switch {
	case w.opts.Buffers != nil:
		*w.opts.Buffers = append(*w.opts.Buffers, x.Data)
		w.op(opNextBuffer)
		if x.ReadOnly {
			w.op(opReadOnlyBuffer)
		}
	case x.ReadOnly:
		w.bytes(x.Data)
	default:
		if err := w.byteArray(&ByteArray{Data: x.Data}); err != nil {
			return err
		}
	}
	w.remember(x)
	return nil
}

// marked writes items between a mark and op; nothing for none.
func (w *writer) marked(items []Value, op byte) error {
	if len(items) == 0 {
		return nil
	}
	w.op(opMark)
	for _, v := range items {
		if err := w.value(v); err != nil {
			return err
		}
	}
	w.op(op)
	return nil
}

func (w *writer) pairs(items []Item) error {
	if len(items) == 0 {
		return nil
	}
	w.op(opMark)
	for _, it := range items {
		if err := w.value(it.Key); err != nil {
			return err
		}
		if err := w.value(it.Value); err != nil {
			return err
		}
	}
	w.op(opSetItems)
	return nil
}

// tuple writes a tuple. A tuple in a cycle has been written inside its own items: then the items are dropped and that
// one is used, as in Python.
func (w *writer) tuple(t Tuple) error {
	if len(t) == 0 {
		w.op(opEmptyTuple)
		return nil
	}
	short := len(t) <= 3
	if !short {
		w.op(opMark)
	}
	for _, v := range t {
		if err := w.value(v); err != nil {
			return err
		}
	}
	if id, _ := identity(t); len(w.memo) > 0 {
		if at, ok := w.memo[id]; ok {
			if short {
				for range t {
					w.op(opPop)
				}
			} else {
				w.op(opPopMark)
			}
			w.get(at)
			return nil
		}
	}
	if short {
		w.op(opTuple1 + byte(len(t)) - 1)
	} else {
		w.op(opTuple)
	}
	w.remember(t)
	return nil
}

// frozenSet is like tuple.
func (w *writer) frozenSet(x *FrozenSet) error {
	w.op(opMark)
	for _, v := range x.Items {
		if err := w.value(v); err != nil {
			return err
		}
	}
	if at, ok := w.memo[x]; ok {
		w.op(opPopMark)
		w.get(at)
		return nil
	}
	w.op(opFrozenSet)
	w.remember(x)
	return nil
}

// object writes the call that creates an object, and its steps.
func (w *writer) object(o *Object) error {
	if o.Func == nil {
		return errors.New("an Object without Func")
	}
	if err := w.value(o.Func); err != nil {
		return err
	}
	if err := w.value(o.Args); err != nil {
		return err
	}
	switch {
	case o.Kind == NewObj && o.Kwargs != nil:
		if err := w.value(o.Kwargs); err != nil {
			return err
		}
		w.op(opNewObjEx)
	case o.Kind == NewObj:
		w.op(opNewObj)
	case o.Kwargs != nil:
		return fmt.Errorf("%s: a Reduce has no keyword arguments: use functools.partial", TypeName(o))
	default:
		w.op(opReduce)
	}
	if at, ok := w.memo[o]; ok {
		// Its own arguments contain it: it was written there, with its steps.
		w.op(opPop)
		w.get(at)
		return nil
	}
	w.remember(o)
	for i := 0; i < len(o.Steps); {
		n, err := w.step(o, o.Steps[i:])
		if err != nil {
			return err
		}
		i += n
	}
	return nil
}

// step writes the first steps, n of one kind.
func (w *writer) step(o *Object, steps []Step) (n int, err error) {
	first := steps[0]
	for n = 1; n < len(steps) && steps[n].Kind == first.Kind; n++ {
	}
	switch first.Kind {
	case Build:
		if err := w.value(first.Value); err != nil {
			return 0, err
		}
		w.op(opBuild)
		return 1, nil
	case SideCall:
		rest, ok := first.Value.(Tuple)
		if !ok {
			return 0, fmt.Errorf("the arguments of a SideCall are a %s, not a Tuple", TypeName(first.Value))
		}
		return 1, w.sideCall(o, first.Key, rest)
	}
	w.op(opMark)
	for _, s := range steps[:n] {
		if first.Kind == SetItem {
			if err := w.value(s.Key); err != nil {
				return 0, err
			}
		}
		if err := w.value(s.Value); err != nil {
			return 0, err
		}
	}
	switch first.Kind {
	case AppendItem:
		w.op(opAppends)
	case SetItem:
		w.op(opSetItems)
	case AddItem:
		w.op(opAddItems)
	default:
		return 0, fmt.Errorf("a step of unknown kind %d", first.Kind)
	}
	return n, nil
}

// sideCall writes fn(o, *rest) for its effect; o is on the stack.
func (w *writer) sideCall(o *Object, fn Value, rest Tuple) error {
	at, ok := w.memo[o]
	if !ok {
		at = w.memoize(o)
	}
	if err := w.value(fn); err != nil {
		return err
	}
	w.op(opMark)
	w.get(at)
	for _, v := range rest {
		if err := w.value(v); err != nil {
			return err
		}
	}
	w.op(opTuple)
	w.op(opReduce)
	w.op(opPop)
	return nil
}
