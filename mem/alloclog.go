package mem

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"
)

// AllocLog is a Resource that writes a line for every allocation, failure and release (RMM's LoggingResourceAdaptor).
// The format is that of RMM, so that its tools can replay the log:
//
//	Thread,Time,Action,Pointer,Size,Stream
//	0,12:04:03.000152,allocate,0x7f0100000000,1048576,0x0
//
// Go has no thread ids, so the Thread column is constant: the order is that of the lines. Stream is the handle of the
// stream of AllocOn, 0x0 for Alloc; a release has the stream of its allocation. A failure has RMM's action "allocate
// failure".
type AllocLog struct {
	adaptor
	flush bool

	mu  sync.Mutex
	w   *bufio.Writer
	err error // first error of the writer; later lines are dropped
}

// AllocLogConfig configures an AllocLog.
type AllocLogConfig struct {
	// Flush writes each line immediately. Default: in blocks of 64 KiB and by AllocLog.Flush.
	Flush bool
}

// NewAllocLog returns a Resource that logs the allocations of upstream to w.
func NewAllocLog(upstream Resource, w io.Writer, cfg AllocLogConfig) (*AllocLog, error) {
	if upstream == nil || w == nil {
		return nil, errors.New("mem: NewAllocLog: upstream resource and writer are required")
	}
	l := &AllocLog{adaptor: adaptor{upstream}, flush: cfg.Flush, w: bufio.NewWriterSize(w, 64<<10)}
	_, l.err = l.w.WriteString("Thread,Time,Action,Pointer,Size,Stream\n")
	return l, l.err
}

// Alloc returns a buffer of n bytes of the upstream resource.
func (l *AllocLog) Alloc(ctx context.Context, n int) (*Buffer, error) { return l.AllocOn(ctx, n, nil) }

// AllocOn is Alloc in stream order, see StreamResource.
func (l *AllocLog) AllocOn(ctx context.Context, n int, st Stream) (*Buffer, error) {
	stream := streamHandle(st)
	b, err := AllocOn(ctx, l.upstream, n, st)
	if err != nil {
		l.line("allocate failure", 0, n, stream)
		return nil, err
	}
	addr := b.Addr()
	l.line("allocate", addr, n, stream)
	b.OnFree(func() { l.line("free", addr, n, stream) })
	return b, nil
}

func (l *AllocLog) line(action string, addr uintptr, n int, stream uintptr) {
	var room [128]byte
	line := append(room[:0], "0,"...)
	line = time.Now().AppendFormat(line, "15:04:05.000000")
	line = append(append(append(line, ','), action...), ",0x"...)
	line = strconv.AppendUint(line, uint64(addr), 16)
	line = append(strconv.AppendInt(append(line, ','), int64(n), 10), ",0x"...)
	line = append(strconv.AppendUint(line, uint64(stream), 16), '\n')
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return
	}
	if _, l.err = l.w.Write(line); l.err == nil && l.flush {
		l.err = l.w.Flush()
	}
}

// Flush writes buffered lines and returns the first error of the writer.
func (l *AllocLog) Flush() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = l.w.Flush()
	}
	if l.err != nil {
		return fmt.Errorf("mem: allocation log: %w", l.err)
	}
	return nil
}
