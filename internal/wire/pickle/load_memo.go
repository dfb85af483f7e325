package pickle

import (
	"errors"
	"fmt"
	"strconv"
)

// memoize implements MEMOIZE, PUT, BINPUT and LONG_BINPUT.
func (l *loader) memoize(op byte) error {
	var at uint64
	var err error
	switch op {
	case opMemoize:
		at = uint64(len(l.memo) + len(l.sparse))
	case opBinPut:
		at, err = l.uint(1)
	case opLongBinPut:
		at, err = l.uint(4)
	case opPut:
		at, err = l.decimal()
	}
	if err != nil {
		return err
	}
	v, err := l.top()
	if err != nil {
		return err
	}
	switch {
	case at < uint64(len(l.memo)):
		l.memo[at] = v
		return nil
	case len(l.memo)+len(l.sparse) >= l.lim.Memo:
		return limitError("Memo", l.lim.Memo)
	case at == uint64(len(l.memo)) && len(l.sparse) == 0:
		l.memo = append(l.memo, v)
	default:
		// A large index must not cost memory up to it. After the first one, later ones are stored with it: MEMOIZE uses
		// the count of both.
		if l.sparse == nil {
			l.sparse = make(map[uint64]Value)
		}
		l.sparse[at] = v
	}
	return nil
}

// recall implements GET, BINGET and LONG_BINGET.
func (l *loader) recall(op byte) error {
	var at uint64
	var err error
	switch op {
	case opBinGet:
		at, err = l.uint(1)
	case opLongBinGet:
		at, err = l.uint(4)
	case opGet:
		at, err = l.decimal()
	}
	if err != nil {
		return err
	}
	if at < uint64(len(l.memo)) {
		return l.push(l.memo[at])
	}
	v, ok := l.sparse[at]
	if !ok {
		return fmt.Errorf("the memo has no entry %d", at)
	}
	return l.push(v)
}

// decimal reads a non-negative number on a separate line.
func (l *loader) decimal() (uint64, error) {
	line, err := l.line()
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(line, 10, 63)
	if err != nil {
		return 0, fmt.Errorf("invalid memo index %.40q", line)
	}
	return n, nil
}

// readOnly implements READONLY_BUFFER: another view of the same memory, while the memo keeps the first one.
func (l *loader) readOnly() error {
	v, err := l.top()
	if err != nil {
		return err
	}
	switch b := v.(type) {
	case []byte:
	case *Buffer:
		if !b.ReadOnly {
			l.stack[len(l.stack)-1] = &Buffer{Data: b.Data, Index: b.Index, ReadOnly: true}
		}
	case *ByteArray:
		l.stack[len(l.stack)-1] = &Buffer{Data: b.Data, Index: -1, ReadOnly: true}
	default:
		return errors.New("a " + TypeName(v) + " is not a buffer")
	}
	return nil
}
