package ucx

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.millstream.dev/internal/testkit/leak"
)

// stressTime is how long each part goes on.
const stressTime = 700 * time.Millisecond

// TestStressToken has 64 goroutines of mixed operations on one endpoint, with pauses that
// let the worker arm and park in between, in every progress mode.
func TestStressToken(t *testing.T) {
	for _, set := range opSettings() {
		if set.transport == "self" {
			continue
		}
		t.Run(set.transport+"/"+set.mode, func(t *testing.T) {
			leak.Check(t)
			a, b := transportPair(t, set.transport, set.w)
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			if err := b.Worker().OpenAM(1); err != nil {
				t.Fatal(err)
			}
			const callers = 64
			var serving, calling sync.WaitGroup
			stopServing, stop := context.WithCancel(ctx)
			for i := range callers {
				serving.Go(func() { echoServer(stopServing, b, uint64(i)) })
			}
			serving.Go(func() {
				for {
					m, err := b.Worker().RecvAM(stopServing, 1)
					if err != nil {
						return
					}
					m.Release()
				}
			})
			end := time.Now().Add(stressTime)
			var ops atomic.Int64
			for i := range callers {
				calling.Go(func() {
					r := rand.New(rand.NewPCG(uint64(i), 7))
					for n := 0; time.Now().Before(end); n++ {
						if err := stressStep(ctx, r, a, uint64(i), n); err != nil {
							t.Errorf("goroutine %d, step %d: %v", i, n, err)
							return
						}
						ops.Add(1)
					}
				})
			}
			calling.Wait()
			stop()
			serving.Wait()
			s := a.Worker().Stats()
			t.Logf("%d steps; %+v", ops.Load(), s.InFlight)
			if err := a.Close(); err != nil {
				t.Error(err)
			}
			if s := a.Worker().Stats(); s.InFlight != 0 {
				t.Errorf("%d operations are left", s.InFlight)
			}
		})
	}
}

// echoServer sends back what comes with a tag, its bytes inverted.
func echoServer(ctx context.Context, ep *Endpoint, tag uint64) {
	buf := make([]byte, 32<<10)
	for {
		info, err := ep.Recv(ctx, Bytes(buf), tag<<8, ^uint64(0xff))
		if err != nil {
			return
		}
		for i := range buf[:info.Len] {
			buf[i] = ^buf[i]
		}
		if err := ep.Send(ctx, Bytes(buf[:info.Len]), 1<<32|info.Tag); err != nil {
			return
		}
	}
}

func stressStep(ctx context.Context, r *rand.Rand, ep *Endpoint, id uint64, n int) error {
	switch r.IntN(12) {
	case 0:
		time.Sleep(time.Duration(r.IntN(3000)) * time.Microsecond) // long enough to park
	case 1:
		return ep.Flush(ctx)
	case 2:
		_, err := ep.Transports()
		return err
	case 3:
		_, found, err := ep.Worker().Probe(1<<40|id, FullMask)
		if found {
			return errors.New("found a message that nobody sent")
		}
		return err
	case 4:
		return ep.SendAM(ctx, 1, []byte("noise"), AMOptions{}, Bytes(make([]byte, r.IntN(4000))))
	case 5: // a receive that nothing matches, canceled
		q := ep.StartRecv(Bytes(make([]byte, 8)), 1<<41|id, FullMask)
		q.Cancel()
		if err := q.Wait(ctx); !errors.Is(err, errCanceled) {
			return fmt.Errorf("canceled receive: %w", err)
		}
	case 6: // the same by deadline
		short, cancel := context.WithTimeout(ctx, time.Duration(r.IntN(500))*time.Microsecond)
		defer cancel()
		if _, err := ep.Recv(short, Bytes(make([]byte, 2000)), 1<<42|id, FullMask); !errors.Is(err,
			context.DeadlineExceeded) {
			return fmt.Errorf("receive with a deadline: %w", err)
		}
	default:
		return echoCall(ctx, r, ep, id<<8|uint64(n&0xff))
	}
	return nil
}

func echoCall(ctx context.Context, r *rand.Rand, ep *Endpoint, tag uint64) error {
	size := []int{0, 8, 500, 1024, 1025, 8000, 20000}[r.IntN(7)]
	msg, back := make([]byte, size), make([]byte, size)
	for i := 0; i < size; i += 97 {
		msg[i] = byte(r.Uint32())
	}
	var info RecvInfo
	if r.IntN(2) == 0 {
		q := ep.StartRecv(Bytes(back), 1<<32|tag, FullMask)
		s := ep.StartSend(Bytes(msg), tag)
		if err := errors.Join(s.Wait(ctx), q.Wait(ctx)); err != nil {
			return err
		}
		info = q.Info()
	} else {
		if err := ep.Send(ctx, Bytes(msg), tag); err != nil {
			return err
		}
		var err error
		if info, err = ep.Recv(ctx, Bytes(back), 1<<32|tag, FullMask); err != nil {
			return err
		}
	}
	for i := range back {
		back[i] = ^back[i]
	}
	if info.Len != size || !bytes.Equal(back, msg) {
		return fmt.Errorf("echo of %d bytes came back as %d, equal %v", size, info.Len, bytes.Equal(back, msg))
	}
	return nil
}

// TestStressCloseMidway closes endpoint, peer's endpoint or worker under 64 goroutines:
// every operation returns, with success or an error that says why.
func TestStressCloseMidway(t *testing.T) {
	for _, what := range []string{"endpoint", "peer", "worker", "peer's worker", "all at once"} {
		t.Run(what, func(t *testing.T) {
			leak.Check(t, leak.Wait(10*time.Second))
			for round := range 6 {
				transport := []string{"shm", "tcp"}[round%2]
				wcfg := opSettings()[round%4].w
				closeMidway(t, transport, wcfg, what)
			}
		})
	}
}

func closeMidway(t *testing.T, transport string, wcfg WorkerConfig, what string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	uc, err := NewContext(transportConfig(transport))
	if err != nil {
		t.Fatal(err)
	}
	wa, err1 := uc.NewWorker(wcfg)
	wb, err2 := uc.NewWorker(wcfg)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	a, b := connectPair(t, ctx, wa, wb)
	if err := wb.OpenAM(1); err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	serving, stop := context.WithCancel(ctx)
	defer stop()
	for i := range 64 {
		running.Go(func() { echoServer(serving, b, uint64(i)) })
		running.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 9))
			for n := 0; ; n++ {
				err := stressStep(ctx, r, a, uint64(i), n)
				if err == nil {
					continue
				}
				// A peer that goes while transports are being set up leaves shared memory that is not there.
				if !errors.Is(err, net.ErrClosed) && !errors.Is(err, errCanceled) && !errors.Is(err, errShmemSegment) {
					t.Errorf("%v", err)
				}
				return
			}
		})
	}
	time.Sleep(time.Duration(rand.IntN(30)) * time.Millisecond)
	begin := time.Now()
	var closing sync.WaitGroup
	for name, f := range map[string]func(){
		"endpoint": func() { _ = a.Close() }, "peer": func() { _ = b.Close() },
		"worker": func() { _ = wa.Close() }, "peer's worker": func() { _ = wb.Close() },
	} {
		if name == what || what == "all at once" {
			closing.Go(f)
		}
	}
	closing.Wait()
	stop()
	// A polite close is heard of by everybody; only then do the callers end.
	done := make(chan struct{})
	go func() { running.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatalf("%s, %s: operations hang after the close of %s", transport, wa.progress(), what)
	}
	t.Logf("%s, %s: over after %v", transport, wa.progress(), time.Since(begin))
	if err := errors.Join(wa.Close(), wb.Close(), uc.Close()); err != nil {
		t.Error(err)
	}
}

// TestStressConnect makes and closes endpoints from many goroutines at once, on several
// workers of one context; the workers are closed in the middle of it.
func TestStressConnect(t *testing.T) {
	for _, set := range []WorkerConfig{{}, {Progress: Thread}} {
		t.Run(set.Progress.String(), func(t *testing.T) {
			leak.Check(t, leak.Wait(15*time.Second))
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			uc, err := NewContext(Config{})
			if err != nil {
				t.Fatal(err)
			}
			server, err := uc.NewWorker(set)
			if err != nil {
				t.Fatal(err)
			}
			line, sock := serveRounds(t, server, "lifeline"), serveRounds(t, server, "socket")
			addr, err := server.Address()
			if err != nil {
				t.Fatal(err)
			}
			var workers []*Worker
			for range 3 {
				w, err := uc.NewWorker(set)
				if err != nil {
					t.Fatal(err)
				}
				workers = append(workers, w)
			}
			var made atomic.Int64
			var running sync.WaitGroup
			for k, w := range workers {
				for i := range 6 {
					running.Go(func() {
						for {
							var ep *Endpoint
							var err error
							switch i % 3 {
							case 0:
								ep, err = w.Dial(ctx, line)
							case 1:
								ep, err = w.DialSocket(ctx, sock, nil)
							case 2:
								ep, err = w.Connect(addr, nil)
							}
							if err == nil {
								_, err = ep.Transports()
								err = errors.Join(err, ep.Close())
								made.Add(1)
							}
							if err != nil {
								if w.drv.closing.Load() || errors.Is(err, ErrClosed) {
									return
								}
								t.Errorf("worker %d: %v", k, err)
								return
							}
						}
					})
				}
			}
			time.Sleep(stressTime)
			for _, w := range workers {
				if err := w.Close(); err != nil {
					t.Error(err)
				}
			}
			running.Wait()
			if err := server.Close(); err != nil {
				t.Error(err)
			}
			if err := uc.Close(); err != nil {
				t.Error(err)
			}
			t.Logf("%d endpoints", made.Load())
		})
	}
}
