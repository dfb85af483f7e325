package rpc

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/wire"
)

// slow sets a handler that takes a second and counts how often it ran.
func (r *rig) slow() *atomic.Int64 {
	n := new(atomic.Int64)
	r.server.Handle("slow", func(context.Context, *Request) (any, error) {
		n.Add(1)
		time.Sleep(time.Second)
		return n.Load(), nil
	})
	return n
}

func TestPoolReuses(t *testing.T) {
	bubble(t, Config{}, PoolConfig{}, func(r *rig) {
		for range 10 {
			if err := r.pool.Call(r.Context(), r.addr, "identity", nil, nil); err != nil {
				t.Fatal(err)
			}
		}
		if s := r.pool.Stats(); s.Dials != 1 || s.Reuses != 9 || s.Idle != 1 || s.Active != 0 || s.Open != 1 {
			t.Errorf("ten calls one after the other: %+v", s)
		}
		r.slow()
		done := make(chan error)
		for range 10 {
			go func() { done <- r.pool.Call(r.Context(), r.addr, "slow", nil, nil) }()
		}
		time.Sleep(time.Second / 2)
		if s := r.pool.Stats(); s.Active != 10 || s.Idle != 0 {
			t.Errorf("ten calls at once: %+v", s)
		}
		for range 10 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		r.pool.Collect()
		if s := r.pool.Stats(); s.Open != 0 || s.Collected != 10 {
			t.Errorf("after Collect: %+v", s)
		}
	})
}

func TestPoolLimit(t *testing.T) {
	bubble(t, Config{}, PoolConfig{Limit: 3}, func(r *rig) {
		r.slow()
		l, err := r.net.Host("other").Listen(r.Context(), "sim://other:1", comm.ListenConfig{})
		if err != nil {
			t.Fatal(err)
		}
		other := NewServer(Config{})
		go other.Serve(context.Background(), l)
		defer other.Close()
		done := make(chan error)
		most := 0
		for i := range 20 {
			addr := []string{r.addr, "sim://other:1"}[i%2]
			op := []string{"slow", "identity"}[i%2]
			go func() { done <- r.pool.Call(r.Context(), addr, op, nil, nil) }()
		}
		for range 20 {
			if err := <-done; err != nil {
				t.Error(err)
			}
			most = max(most, r.pool.Stats().Open)
		}
		if most > 3 {
			t.Errorf("%d comms were open, the limit is 3", most)
		}
		if s := r.pool.Stats(); s.Waiting != 0 || s.Active != 0 || s.Dialling != 0 {
			t.Errorf("%+v", s)
		}
	})
}

func TestPoolIdleTime(t *testing.T) {
	bubble(t, Config{}, PoolConfig{Idle: time.Minute}, func(r *rig) {
		call := func() {
			if err := r.pool.Call(r.Context(), r.addr, "identity", nil, nil); err != nil {
				t.Fatal(err)
			}
		}
		call()
		time.Sleep(50 * time.Second)
		call()
		time.Sleep(50 * time.Second)
		if s := r.pool.Stats(); s.Open != 1 || s.Dials != 1 {
			t.Errorf("idle for less than the time: %+v", s)
		}
		time.Sleep(2 * time.Minute)
		if s := r.pool.Stats(); s.Open != 0 || s.Collected != 1 {
			t.Errorf("idle for more than the time: %+v", s)
		}
	})
}

// TestEndedCommsAreFreed: an idle comm that the peer has ended is closed here too, without
// anybody calling.
func TestEndedCommsAreFreed(t *testing.T) {
	bubble(t, Config{}, PoolConfig{}, func(r *rig) {
		if err := r.pool.Call(r.Context(), r.addr, "identity", nil, nil); err != nil {
			t.Fatal(err)
		}
		r.net.Kill("server")
		time.Sleep(2 * time.Minute)
		if s := r.pool.Stats(); s.Open != 0 || len(r.pool.peers) != 0 {
			t.Errorf("kept: %+v", s)
		}
	})
}

// TestStaleComm: a kept comm that has ended is replaced without the caller's notice, also
// when its end is found only by the write.
func TestStaleComm(t *testing.T) {
	bubble(t, Config{}, PoolConfig{}, func(r *rig) {
		n := r.slow()
		if err := r.pool.Call(r.Context(), r.addr, "slow", nil, nil); err != nil {
			t.Fatal(err)
		}
		r.net.Drop("client", "server")
		if err := r.pool.Call(r.Context(), r.addr, "slow", nil, nil); err != nil {
			t.Errorf("a call after the connection was lost: %v", err)
		}
		if n.Load() != 2 {
			t.Errorf("the handler ran %d times", n.Load())
		}
	})
}

// flaky is a network whose comms fail the next write, before or after they have sent it.
type flaky struct {
	comm.Network
	fail *atomic.Int32 // 0 no, 1 before, 2 after
}

type flakyComm struct {
	comm.Comm
	fail *atomic.Int32
}

type notSent struct{ error }

func (notSent) Unsent() bool { return true }

func (f flaky) Dial(ctx context.Context, address string, cfg comm.DialConfig) (comm.Comm, error) {
	c, err := f.Network.Dial(ctx, address, cfg)
	return &flakyComm{c, f.fail}, err
}

func (c *flakyComm) Write(ctx context.Context, m *wire.Message) error {
	switch c.fail.Swap(0) {
	case 1:
		return notSent{comm.ErrClosed}
	case 2:
		if err := c.Comm.Write(ctx, m); err != nil {
			return err
		}
		time.Sleep(time.Millisecond) // the peer has it
		return fmt.Errorf("lost: %w", comm.ErrClosed)
	}
	return c.Comm.Write(ctx, m)
}

// TestSecondTry: a used comm that says that nothing was sent is replaced, once; one that
// does not say so is not, and neither is a fresh one.
func TestSecondTry(t *testing.T) {
	bubble(t, Config{}, PoolConfig{}, func(r *rig) {
		n := r.slow()
		fail := new(atomic.Int32)
		pool := NewPool(flaky{r.net.Host("client"), fail}, PoolConfig{})
		defer pool.Close()
		call := func() error { return pool.Call(r.Context(), r.addr, "slow", nil, nil) }
		fail.Store(1)
		var e *CallError
		if err := call(); !errors.As(err, &e) || e.Sent {
			t.Errorf("a fresh comm that fails at once: %v", err)
		}
		for range 3 { // the first makes the comm used
			if err := call(); err != nil {
				t.Errorf("a used comm that fails at once: %v", err)
			}
			fail.Store(1)
		}
		fail.Store(2)
		if err := call(); !errors.As(err, &e) || !e.Sent {
			t.Errorf("a comm that fails late: %v", err)
		}
		time.Sleep(5 * time.Second)
		if n.Load() != 4 {
			t.Errorf("the handler ran %d times, want 4", n.Load())
		}
		if s := pool.Stats(); s.Open != s.Idle || s.Active != 0 {
			t.Errorf("left over: %+v", s)
		}
		if err := call(); err != nil {
			t.Error(err)
		}
		if s := pool.Stats(); s.Open != 1 || s.Idle != 1 {
			t.Errorf("in the end: %+v", s)
		}
	})
}

// TestNoSecondTry: a request that was written is never written again.
func TestNoSecondTry(t *testing.T) {
	bubble(t, Config{}, PoolConfig{}, func(r *rig) {
		n := r.slow()
		for range 2 { // the first on a fresh comm, the second on a used one
			time.AfterFunc(time.Second/2, func() { r.net.Drop("client", "server") })
			err := r.pool.Call(r.Context(), r.addr, "slow", nil, nil)
			var call *CallError
			if !errors.As(err, &call) || !call.Sent || !errors.Is(err, comm.ErrClosed) {
				t.Errorf("the connection broke in the middle: %v", err)
			}
			if !strings.Contains(err.Error(), "may have acted") {
				t.Errorf("the error does not say so: %v", err)
			}
			time.Sleep(5 * time.Second)
			if err := r.pool.Call(r.Context(), r.addr, "identity", nil, nil); err != nil {
				t.Fatal(err)
			}
		}
		if n.Load() != 2 {
			t.Errorf("two calls ran the handler %d times", n.Load())
		}
	})
}

// TestSharedDials: a comm goes to who waits first, whoever began its dial, and a dial that
// nobody waits for is given up.
func TestSharedDials(t *testing.T) {
	bubble(t, Config{}, PoolConfig{}, func(r *rig) {
		r.net.Partition("client", "server")
		ctx, cancel := context.WithCancel(r.Context())
		impatient, patient := make(chan error, 1), make(chan error, 1)
		go func() { impatient <- r.pool.Call(ctx, r.addr, "identity", nil, nil) }()
		synctest.Wait()
		go func() { patient <- r.pool.Call(r.Context(), r.addr, "identity", nil, nil) }()
		synctest.Wait()
		if s := r.pool.Stats(); s.Dialling != 2 || s.Waiting != 2 {
			t.Errorf("two calls: %+v", s)
		}
		cancel()
		if err := <-impatient; !errors.Is(err, context.Canceled) {
			t.Errorf("the impatient call: %v", err)
		}
		if s := r.pool.Stats(); s.Dialling != 1 || s.Waiting != 1 || s.Open != 1 {
			t.Errorf("one call left: %+v", s)
		}
		time.AfterFunc(time.Second, func() { r.net.Heal("client", "server") })
		if err := <-patient; err != nil {
			t.Errorf("the patient call: %v", err)
		}
	})
}

func TestPoolRemove(t *testing.T) {
	bubble(t, Config{}, PoolConfig{}, func(r *rig) {
		r.slow()
		if err := r.pool.Call(r.Context(), r.addr, "identity", nil, nil); err != nil {
			t.Fatal(err)
		}
		busy, waiting := make(chan error, 1), make(chan error, 1)
		go func() { busy <- r.pool.Call(r.Context(), r.addr, "slow", nil, nil) }()
		time.Sleep(time.Second / 2)
		r.net.Partition("client", "server")
		go func() { waiting <- r.pool.Call(r.Context(), r.addr, "slow", nil, nil) }()
		synctest.Wait()
		r.pool.Remove(r.addr)
		r.pool.Remove("sim://nobody:1")
		for _, c := range []chan error{busy, waiting} {
			if err := <-c; !errors.Is(err, comm.ErrClosed) {
				t.Errorf("a call to a removed address: %v", err)
			}
		}
		if s := r.pool.Stats(); s.Open != 0 {
			t.Errorf("after Remove: %+v", s)
		}
		r.net.HealAll()
		if err := r.pool.Call(r.Context(), r.addr, "identity", nil, nil); err != nil {
			t.Errorf("a call after Remove: %v", err)
		}
	})
}

func TestPoolClose(t *testing.T) {
	bubble(t, Config{}, PoolConfig{}, func(r *rig) {
		r.slow()
		busy := make(chan error, 1)
		go func() { busy <- r.pool.Call(r.Context(), r.addr, "slow", nil, nil) }()
		time.Sleep(time.Second / 2)
		for range 2 {
			if err := r.pool.Close(); err != nil {
				t.Error(err)
			}
		}
		if err := <-busy; !errors.Is(err, comm.ErrClosed) {
			t.Errorf("a call while the pool closed: %v", err)
		}
		if err := r.pool.Call(r.Context(), r.addr, "slow", nil, nil); !errors.Is(err, ErrClosed) {
			t.Errorf("a call on a closed pool: %v", err)
		}
		if len(r.pool.peers) != 0 {
			t.Errorf("%d addresses are remembered", len(r.pool.peers))
		}
	})
}

func TestDialFails(t *testing.T) {
	bubble(t, Config{}, PoolConfig{Dial: comm.DialConfig{Timeout: time.Second}}, func(r *rig) {
		err := r.pool.Call(r.Context(), "sim://nobody:1", "identity", nil, nil)
		var call *CallError
		var connect *comm.ConnectError
		if !errors.As(err, &call) || call.Sent || !errors.As(err, &connect) {
			t.Errorf("a call to nobody: %v", err)
		}
		if s := r.pool.Stats(); s.Open != 0 || len(r.pool.peers) != 0 {
			t.Errorf("%+v, %d addresses", s, len(r.pool.peers))
		}
	})
}

func TestNotify(t *testing.T) {
	bubble(t, Config{}, PoolConfig{}, func(r *rig) {
		n := r.slow()
		for range 3 {
			if err := r.pool.Notify(r.Context(), r.addr, "slow", nil); err != nil {
				t.Error(err)
			}
		}
		time.Sleep(10 * time.Second)
		if n.Load() != 3 {
			t.Errorf("the handler ran %d times", n.Load())
		}
		var got int
		if err := r.pool.Call(r.Context(), r.addr, "slow", nil, &got); err != nil || got != 4 {
			t.Errorf("a call after them got another's answer: %d, %v", got, err)
		}
	})
}

func TestCallArguments(t *testing.T) {
	bubble(t, Config{}, PoolConfig{}, func(r *rig) {
		for _, bad := range []any{7, "x", obj{"op": 1}, obj{"reply": false}, map[int]int{1: 1}} {
			if err := r.pool.Call(r.Context(), r.addr, "echo", bad, nil); err == nil {
				t.Errorf("arguments %v were taken", bad)
			}
		}
		var s string
		if err := r.pool.Call(r.Context(), r.addr, "echo", obj{"data": 7}, &s); err == nil ||
			!strings.Contains(err.Error(), "unexpected answer") {
			t.Errorf("an int into a string: %v", err)
		}
		if err := r.pool.Call(r.Context(), r.addr, "echo", nil, 7); err == nil {
			t.Error("a reply that is no pointer was taken")
		}
		c := r.dial("client")
		defer c.Close()
		for i := range 3 {
			var got int
			if err := Call(r.Context(), c, "echo", obj{"data": i}, &got); err != nil || got != i {
				t.Errorf("call %d on a comm: %d, %v", i, got, err)
			}
		}
	})
}

// TestPoolUnderFaults hammers a pool while connections break: every call ends, each is
// carried out at most once, and nothing is left over.
func TestPoolUnderFaults(t *testing.T) {
	for seed := range uint64(5) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			bubble(t, Config{}, PoolConfig{Limit: 8, Dial: comm.DialConfig{Timeout: 20 * time.Second}}, func(r *rig) {
				var ran [400]atomic.Int64
				Handle(r.server, "count", func(_ context.Context, _ *Request, in struct{ N int }) (int, error) {
					ran[in.N].Add(1)
					time.Sleep(time.Duration(in.N%7) * time.Millisecond)
					return in.N, nil
				})
				stop := make(chan struct{})
				faults := make(chan struct{})
				go func() {
					defer close(faults)
					for i := 0; ; i++ {
						select {
						case <-stop:
							return
						case <-time.After(time.Duration(1+(i*7+int(seed))%13) * time.Millisecond):
						}
						switch (i + int(seed)) % 4 {
						case 0:
							r.net.Drop("client", "server")
						case 1:
							r.net.DropAfter("client", "server", int64(i*31%200))
						case 2:
							r.net.DropAfter("server", "client", int64(i*17%100))
						case 3:
							r.net.PartitionOneWay("server", "client")
							time.Sleep(time.Millisecond)
							r.net.HealAll()
						}
					}
				}()
				var ok, failed atomic.Int64
				done := make(chan struct{})
				for w := range 20 {
					go func() {
						defer func() { done <- struct{}{} }()
						for i := range 20 {
							n := w*20 + i
							var got int
							ctx, cancel := context.WithTimeout(r.Context(), 10*time.Second)
							err := r.pool.Call(ctx, r.addr, "count", obj{"n": n}, &got)
							cancel()
							switch {
							case err == nil && got != n:
								t.Errorf("call %d got the answer of %d", n, got)
							case err == nil && ran[n].Load() != 1:
								t.Errorf("call %d ran %d times", n, ran[n].Load())
							case err == nil:
								ok.Add(1)
							default:
								failed.Add(1)
								var call *CallError
								if !errors.As(err, &call) {
									t.Errorf("call %d: %v", n, err)
								} else if !call.Sent && ran[n].Load() != 0 {
									t.Errorf("call %d was not sent, it says, and ran: %v", n, err)
								}
							}
						}
					}()
				}
				for range 20 {
					<-done
				}
				close(stop)
				<-faults
				for n := range ran {
					if ran[n].Load() > 1 {
						t.Errorf("call %d ran %d times", n, ran[n].Load())
					}
				}
				if ok.Load() == 0 || failed.Load() == 0 {
					t.Errorf("%d calls succeeded, %d failed: this tests nothing", ok.Load(), failed.Load())
				}
				if s := r.pool.Stats(); s.Active != 0 || s.Waiting != 0 || s.Dialling != 0 || s.Open != s.Idle {
					t.Errorf("left over: %+v", s)
				}
			})
		})
	}
}
