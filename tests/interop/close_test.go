package interop

import (
	"errors"
	"io"
	"strconv"
	"testing"
	"time"

	"go.millstream.dev/tests/interop/pypeer"
	"go.millstream.dev/ucx"
)

func itoa(n int) string { return strconv.Itoa(n) }

// noticeWithin is how soon the end of a peer on this host is known: a bound for a
// busy machine, far below UCX's keepalive of 20 s.
const noticeWithin = 15 * time.Second

// pendingOps starts receives that only the connection's end can end.
func pendingOps(l *link) map[string]<-chan error {
	ops := map[string]<-chan error{
		"tag receive": async(func() error {
			_, err := l.ep.Recv(l.ctx, ucx.Bytes(make([]byte, 100)), ucx.UserTag(1))
			return err
		}),
		"large tag receive": async(func() error {
			_, err := l.ep.Recv(l.ctx, ucx.Bytes(make([]byte, 1<<20)), ucx.UserTag(2))
			return err
		}),
		"multi-buffer receive": async(func() error {
			_, err := l.ep.RecvMulti(l.ctx, ucx.UserTag(3), ucx.Allocators{})
			return err
		}),
		"active-message receive": async(func() error {
			_, err := l.ep.RecvAM(l.ctx)
			return err
		}),
	}
	time.Sleep(50 * time.Millisecond) // they are posted
	return ops
}

func expectEOF(l *link, ops map[string]<-chan error) {
	l.Helper()
	for name, ch := range ops {
		select {
		case err := <-ch:
			if !errors.Is(err, io.EOF) {
				l.Errorf("%s ended with %v", name, err)
			}
		case <-time.After(noticeWithin):
			l.Errorf("%s still waits", name)
		}
	}
	l.waitDone()
	if !errors.Is(l.ep.Err(), io.EOF) {
		l.Errorf("the endpoint's error is %v", l.ep.Err())
	}
	if err := l.ep.Send(l.ctx, ucx.Bytes([]byte{1}), ucx.DefaultTag); !errors.Is(err, io.EOF) {
		l.Errorf("a send afterwards: %v", err)
	}
	if err := l.ep.Close(); err != nil {
		l.Errorf("Close: %v", err)
	}
}

// The peer's close and abort are EOF for what waits, and what had arrived stays.
func TestPeerCloses(t *testing.T) {
	for _, how := range []string{"close", "abort"} {
		t.Run(how, func(t *testing.T) {
			bothWays(t, func(l *link) {
				l.do("send", l.command(pypeer.Command{"data": pypeer.Data(50, 1)}))
				for _, found, err := l.ep.Probe(ucx.DefaultTag); !found; _, found, err = l.ep.Probe(ucx.DefaultTag) {
					if err != nil || l.ctx.Err() != nil {
						l.Fatalf("the message did not arrive: %v", err)
					}
				}
				ops := pendingOps(l)
				l.do(how, l.command(nil))
				expectEOF(l, ops)
				buf := make([]byte, 50)
				if _, err := l.ep.Recv(l.ctx, ucx.Bytes(buf), ucx.DefaultTag); err != nil {
					l.Errorf("what had arrived: %v", err)
				} else if err := check(buf, 50, 1); err != nil {
					l.Error(err)
				}
				if _, err := l.ep.Recv(l.ctx, ucx.Bytes(buf), ucx.DefaultTag); err == nil {
					l.Error("there was more than was sent")
				}
			})
		})
	}
}

// Our close reaches the peer: its callback runs, its receive ends.
func TestWeClose(t *testing.T) {
	bothWays(t, func(l *link) {
		recv := l.post("recv", l.command(pypeer.Command{"size": 10}))
		if err := l.ep.Close(); err != nil {
			l.Fatal(err)
		}
		if a := l.do("wait_closed", l.command(pypeer.Command{"timeout": noticeWithin.Seconds()})); !a.Closed {
			l.Error("the peer did not see the close")
		}
		var failed *pypeer.Failed
		if _, err := recv.Wait(l.ctx); !errors.As(err, &failed) {
			l.Errorf("the peer's receive ended with %v", err)
		} else {
			l.Logf("the peer's receive ended with %s", failed.Exception)
		}
		if _, err := l.peer.Do(l.ctx, "send", l.command(pypeer.Command{"data": pypeer.Data(1, 0)})); !errors.As(err,
			&failed) {
			l.Errorf("the peer's send afterwards ended with %v", err)
		}
	})
}

// A killed peer is noticed by idle endpoints, by pending receives, and by a large
// send that the peer had not received.
func TestPeerKilled(t *testing.T) {
	bothWaysAlone(t, func(l *link) {
		ops := pendingOps(l)
		send := async(func() error {
			return l.ep.Send(l.ctx, ucx.Bytes(make([]byte, 64<<20)), ucx.UserTag(9))
		})
		time.Sleep(50 * time.Millisecond)
		start := time.Now()
		l.peer.Kill()
		ops["large send"] = send
		expectEOF(l, ops)
		l.Logf("noticed within %v", time.Since(start))
	})
}

// Connections that come and go leave the worker as it was.
func TestManyConnections(t *testing.T) {
	r := newRig(t, pypeer.Async)
	for i := range 10 {
		for _, l := range []*link{r.client(), r.server()} {
			recv := l.post("recv", l.command(pypeer.Command{"size": 1000}))
			if err := l.ep.Send(l.ctx, ucx.Bytes(pypeer.NewPattern(1000, i)), ucx.DefaultTag); err != nil {
				t.Fatal(err)
			}
			if err := checkAnswer(l.wait(recv), 1000, i); err != nil {
				t.Error(err)
			}
			if i%2 == 0 {
				if err := l.ep.Close(); err != nil {
					t.Error(err)
				}
			} else {
				l.do("close", l.command(nil))
				l.waitDone()
			}
		}
	}
}
