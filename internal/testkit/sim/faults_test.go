package sim

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.millstream.dev/comm"
)

func listen(t *testing.T, n *Network, host string, cfg comm.ListenConfig) comm.Listener {
	t.Helper()
	l, err := n.Host(host).Listen(t.Context(), "sim://"+host+":0", cfg)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// nothing checks that no message comes within a second.
func nothing(t *testing.T, c comm.Comm) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if m, err := c.Read(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("read %v, %v: want nothing", m, err)
	}
}

func TestPartitionDelays(t *testing.T) {
	bubble(t, Config{Link: Link{Latency: time.Millisecond}}, func(t *testing.T, n *Network) {
		a, b := pair(t, n)
		n.Partition("a", "b")
		for i := range 3 {
			mustWrite(t, a, fmt.Sprint(i))
		}
		nothing(t, b)
		n.Heal("a", "b")
		for i := range 3 {
			mustRead(t, b, fmt.Sprint(i))
		}
		// What is on its way when the cut ends must not overtake what the cut held back.
		n.SetLink("a", "b", Link{Latency: 10 * time.Millisecond})
		n.Partition("a", "b")
		mustWrite(t, a, "held")
		time.Sleep(15 * time.Millisecond)
		mustWrite(t, a, "on its way")
		time.Sleep(time.Millisecond)
		n.Heal("a", "b")
		mustRead(t, b, "held")
		mustRead(t, b, "on its way")

		n.PartitionOneWay("a", "b")
		mustWrite(t, b, "the other way is open")
		mustRead(t, a, "the other way is open")
		mustWrite(t, a, "late")
		nothing(t, b)
		n.HealAll()
		mustRead(t, b, "late")
	})
}

func TestPartitionTimesOut(t *testing.T) {
	bubble(t, Config{Timeout: 10 * time.Second}, func(t *testing.T, n *Network) {
		a, b := pair(t, n)
		c, d := func() (comm.Comm, comm.Comm) {
			l := listen(t, n, "b", comm.ListenConfig{})
			defer l.Close()
			return connect(t, n, "c", l)
		}()
		n.Partition("a", "b")
		time.Sleep(9 * time.Second)
		if a.Err() != nil || b.Err() != nil {
			t.Fatal("ended too early")
		}
		n.Heal("a", "b") // begins a new count
		time.Sleep(5 * time.Second)
		n.Isolate("a")
		time.Sleep(9 * time.Second)
		if a.Err() != nil || b.Err() != nil {
			t.Fatal("ended too early")
		}
		time.Sleep(2 * time.Second)
		wantClosed(t, a)
		wantClosed(t, b)
		mustWrite(t, c, "others are not touched")
		mustRead(t, d, "others are not touched")
	})
}

func TestDropInTheMiddle(t *testing.T) {
	told := map[bool]bool{}
	for seed := range uint64(32) {
		bubble(t, Config{Seed: seed}, func(t *testing.T, n *Network) {
			a, b := pair(t, n)
			mustWrite(t, a, "whole")
			n.DropAfter("a", "b", 10)
			mustRead(t, b, "whole")
			err := a.Write(t.Context(), text("broken"))
			told[err != nil] = true
			if err != nil && !errors.Is(err, comm.ErrClosed) {
				t.Error(err)
			}
			wantClosed(t, b)
			wantClosed(t, a)
		})
	}
	if len(told) != 2 {
		t.Errorf("errors of the writer over 32 seeds: got %v, want both outcomes", told)
	}
}

func TestRefuseAndRetry(t *testing.T) {
	bubble(t, Config{Link: Link{Latency: time.Millisecond}}, func(t *testing.T, n *Network) {
		_, err := n.Host("a").Dial(t.Context(), "sim://b:1", comm.DialConfig{Timeout: 5 * time.Second})
		var fail *comm.ConnectError
		if !errors.As(err, &fail) || !errors.Is(err, os.ErrDeadlineExceeded) || fail.Attempts < 3 ||
			!strings.Contains(err.Error(), "refused") {
			t.Fatalf("dial without a listener: %v", err)
		}
		l := listen(t, n, "b", comm.ListenConfig{})
		defer l.Close()
		n.Refuse("b", true)
		time.AfterFunc(3*time.Second, func() { n.Refuse("b", false) })
		c, err := n.Host("a").Dial(t.Context(), l.ContactAddr(), comm.DialConfig{})
		if err != nil {
			t.Fatalf("dial to a host that is back after 3 s: %v", err)
		}
		c.Abort()
		ctx, cancel := context.WithCancel(t.Context())
		n.Partition("a", "b")
		time.AfterFunc(time.Second, cancel)
		if _, err := n.Host("a").Dial(ctx, l.ContactAddr(), comm.DialConfig{}); !errors.Is(err, context.Canceled) {
			t.Fatalf("cancelled dial: %v", err)
		}
		for _, bad := range []string{"tcp://b:1", "sim://b", "sim://:1", "sim://b:99999", "sim://b/c:1", "b:1"} {
			if _, err := n.Host("a").Dial(t.Context(), bad, comm.DialConfig{}); err == nil {
				t.Errorf("dial %q did not fail", bad)
			}
		}
	})
}

func TestStall(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, n *Network) {
		l := listen(t, n, "b", comm.ListenConfig{})
		defer l.Close()
		a, b := connect(t, n, "a", l)
		n.Stall("b")
		mustWrite(t, a, "taken by the kernel")
		nothing(t, b)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := b.Write(ctx, text("x")); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("write of a stalled host: %v", err)
		}
		dialed := make(chan error, 1)
		go func() {
			c, err := n.Host("a").Dial(t.Context(), l.ContactAddr(), comm.DialConfig{})
			if err == nil {
				defer c.Abort()
			}
			dialed <- err
		}()
		time.Sleep(time.Second)
		select {
		case err := <-dialed:
			t.Fatalf("a stalled host shook hands: %v", err)
		default:
		}
		n.Resume("b")
		mustRead(t, b, "taken by the kernel")
		if err := <-dialed; err != nil {
			t.Fatal(err)
		}
	})
}

func TestKillCrashRevive(t *testing.T) {
	bubble(t, Config{Link: Link{Latency: time.Millisecond}, Timeout: 10 * time.Second}, func(t *testing.T, n *Network) {
		for _, silent := range []bool{false, true} {
			l := listen(t, n, "b", comm.ListenConfig{})
			a, b := connect(t, n, "a", l)
			mustWrite(t, b, "lost")
			start := time.Now()
			if silent {
				n.Crash("b")
			} else {
				n.Kill("b")
			}
			if _, err := l.Accept(t.Context()); !errors.Is(err, comm.ErrClosed) {
				t.Errorf("accept of a dead host: %v", err)
			}
			if _, err := n.Host("b").Dial(t.Context(), "sim://a:1", comm.DialConfig{}); err == nil {
				t.Error("a dead host dialed")
			}
			wantClosed(t, b)
			wantClosed(t, a)
			if took := time.Since(start); silent != (took >= 10*time.Second) {
				t.Errorf("silent=%v: the peer noticed after %v", silent, took)
			}
			n.Revive("b")
			l = listen(t, n, "b", comm.ListenConfig{})
			a, b = connect(t, n, "a", l)
			mustWrite(t, a, "again")
			mustRead(t, b, "again")
			_, _ = a.Close(), l.Close()
			time.Sleep(time.Second)
			if n.Comms() != 0 {
				t.Errorf("%d connections left", n.Comms())
			}
		}
	})
}

func TestHalfOpenPeersPushOutEachOther(t *testing.T) {
	bubble(t, Config{Link: Link{Latency: time.Millisecond}}, func(t *testing.T, n *Network) {
		l := listen(t, n, "b", comm.ListenConfig{Limits: comm.Limits{Pending: 3, HandshakeTime: 5 * time.Second}})
		defer l.Close()
		var release []func()
		for range 10 {
			r, err := n.HalfOpen(t.Context(), "hostile", l.ContactAddr())
			if err != nil {
				t.Fatal(err)
			}
			release = append(release, r)
		}
		time.Sleep(time.Second)
		a, b := connect(t, n, "a", l)
		mustWrite(t, a, "served all the same")
		mustRead(t, b, "served all the same")
		time.Sleep(10 * time.Second)
		if got := n.Comms(); got != 1 {
			t.Errorf("%d connections live after the time for handshakes, want one", got)
		}
		for _, r := range release {
			r()
		}
	})
}

func TestInvitationAndCompression(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, n *Network) {
		l := listen(t, n, "b", comm.ListenConfig{Compression: "lz4", Admit: func(_ string, c []byte) bool {
			return string(c) == "let me in"
		}})
		defer l.Close()
		var bad *comm.HandshakeError
		if _, err := n.Host("a").Dial(t.Context(), l.ContactAddr(),
			comm.DialConfig{Invitation: []byte("guess")}); !errors.As(err, &bad) {
			t.Errorf("dial with a wrong invitation: %v", err)
		}
		c, err := n.Host("a").Dial(t.Context(), l.ContactAddr(),
			comm.DialConfig{Invitation: []byte("let me in"), Compression: "auto"})
		if err != nil {
			t.Fatal(err)
		}
		if info := c.Info(); info.Compression != "lz4" || info.Millstream == nil || info.SameHost {
			t.Errorf("agreed on %+v", info)
		}
		c.Abort()
		n.Host("snake").Python(3, 11, 7)
		c, err = n.Host("snake").Dial(t.Context(), l.ContactAddr(), comm.DialConfig{Invitation: []byte("let me in")})
		if err != nil {
			t.Fatal(err)
		}
		c.Abort()
		if _, err := n.Host("a").Dial(t.Context(), l.ContactAddr(),
			comm.DialConfig{RequireEncryption: true}); err == nil {
			t.Error("sim:// passed for encrypted")
		}
	})
}

// TestSeedsRepeat runs the same story twice: with Deterministic the traces are equal, and
// another seed gives another one.
func TestSeedsRepeat(t *testing.T) {
	run := func(seed uint64) (trace string) {
		synctest.Test(t, func(t *testing.T) {
			n := New(Config{Seed: seed, Deterministic: true,
				Link: Link{Latency: time.Millisecond, Jitter: 3 * time.Millisecond, Bandwidth: 1 << 20}})
			l := listen(t, n, "server", comm.ListenConfig{})
			go func() {
				for {
					c, err := l.Accept(t.Context())
					if err != nil {
						return
					}
					go func() {
						defer c.Close()
						for {
							m, err := c.Read(t.Context())
							if err != nil {
								return
							}
							err = c.Write(t.Context(), m)
							m.Release()
							if err != nil {
								return
							}
						}
					}()
				}
			}()
			done := make(chan struct{})
			for i := range 5 {
				go func() {
					defer func() { done <- struct{}{} }()
					c, err := n.Host(fmt.Sprint("client", i)).Dial(t.Context(), l.ContactAddr(), comm.DialConfig{})
					if err != nil {
						return
					}
					defer c.Close()
					for k := range 10 {
						if c.Write(t.Context(), text(fmt.Sprint(i, k))) != nil {
							return
						}
						m, err := c.Read(t.Context())
						if err != nil {
							return
						}
						m.Release()
					}
				}()
			}
			time.Sleep(20 * time.Millisecond)
			n.DropAfter("client2", "server", 100)
			n.Partition("client3", "server")
			time.Sleep(time.Minute)
			for range 5 {
				<-done
			}
			_ = l.Close()
			time.Sleep(time.Second)
			trace = n.Trace()
		})
		return trace
	}
	first := run(1)
	for range 5 {
		if again := run(1); again != first {
			t.Fatalf("the same seed gave\n%s\nand\n%s", first, again)
		}
	}
	if run(2) == first {
		t.Error("another seed gave the same trace")
	}
	if !strings.Contains(first, "dropped in the middle") || !strings.Contains(first, "connection timed out") {
		t.Errorf("the faults are not in the trace:\n%s", first)
	}
}
