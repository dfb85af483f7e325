package staging_test

import (
	"context"
	"io"
	"net"
	"sync"

	"go.millstream.dev/internal/device/staging"
	"go.millstream.dev/mem"
)

// Lines that do not wait, as UCX's: a goroutine each works off what it was given.

type job struct {
	chunk *mem.Buffer
	done  chan struct{}
	err   error // set before done is closed
}

func (j *job) Wait(ctx context.Context) error {
	select {
	case <-j.done:
		return j.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

type asyncLine struct {
	mu    sync.Mutex
	wake  *sync.Cond
	jobs  []*job // guarded by mu
	ended bool   // guarded by mu
}

// newAsyncLine works jobs off until one fails; later ones fail alike. It ends when gone is closed and all are done.
func newAsyncLine(work func([]byte) error, gone <-chan struct{}) *asyncLine {
	l := &asyncLine{}
	l.wake = sync.NewCond(&l.mu)
	go func() {
		<-gone
		l.mu.Lock()
		l.ended = true
		l.mu.Unlock()
		l.wake.Signal()
	}()
	go func() {
		var failed error
		for {
			l.mu.Lock()
			for len(l.jobs) == 0 && !l.ended {
				l.wake.Wait()
			}
			if len(l.jobs) == 0 {
				l.mu.Unlock()
				return
			}
			j := l.jobs[0]
			l.jobs = l.jobs[1:]
			l.mu.Unlock()
			if failed == nil {
				failed = work(j.chunk.Bytes())
			}
			j.err = failed
			j.chunk.Release()
			close(j.done)
		}
	}()
	return l
}

func (l *asyncLine) start(chunk *mem.Buffer) (staging.Pending, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return nil, net.ErrClosed
	}
	j := &job{chunk: chunk.Retain(), done: make(chan struct{})}
	l.jobs = append(l.jobs, j)
	l.wake.Signal()
	return j, nil
}

type asyncWriter struct{ *asyncLine }

func (w asyncWriter) Send(_ context.Context, chunk *mem.Buffer) (staging.Pending, error) {
	return w.start(chunk)
}

type asyncReader struct{ *asyncLine }

func (r asyncReader) Recv(_ context.Context, chunk *mem.Buffer) (staging.Pending, error) {
	return r.start(chunk)
}

func newAsyncWriter(w io.Writer, gone <-chan struct{}) staging.Writer {
	return asyncWriter{newAsyncLine(func(b []byte) error { _, err := w.Write(b); return err }, gone)}
}

func newAsyncReader(r io.Reader, gone <-chan struct{}) staging.Reader {
	return asyncReader{newAsyncLine(func(b []byte) error { _, err := io.ReadFull(r, b); return err }, gone)}
}
