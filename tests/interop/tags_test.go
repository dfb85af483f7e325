package interop

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"go.millstream.dev/tests/interop/pypeer"
	"go.millstream.dev/ucx"
)

// The handshake in every progress mode of UCXX, several connections each.
func TestHandshake(t *testing.T) {
	for _, mode := range []string{"thread", "blocking", "polling"} {
		t.Run(mode, func(t *testing.T) {
			r := newRig(t, pypeer.Async, "--progress-mode", mode)
			info := r.do("info", nil)
			t.Logf("UCXX %s on UCX %s, we on %s", info.UCXX, info.UCX, r.w.Context().Info().Library.Version)
			for range 3 {
				for _, l := range []*link{r.client(), r.server()} {
					send, recv := l.ep.Tags()
					if send != l.their.RecvTag || recv != l.their.SendTag {
						t.Errorf("we send %#x and receive %#x, the peer sends %#x and receives %#x", send, recv,
							l.their.SendTag, l.their.RecvTag)
					}
					if a := l.do("alive", l.command(nil)); !a.Alive {
						t.Error("the peer's endpoint is dead")
					}
					// One message each way shows that it works.
					got := async(func() error {
						b := make([]byte, 16)
						if _, err := l.ep.Recv(l.ctx, ucx.Bytes(b), ucx.DefaultTag); err != nil {
							return err
						}
						return l.ep.Send(l.ctx, ucx.Bytes(b), ucx.DefaultTag)
					})
					back := l.post("recv", l.command(pypeer.Command{"size": 16}))
					l.do("send", l.command(pypeer.Command{"data": pypeer.Data(16, 3)}))
					if err := <-got; err != nil {
						t.Fatal(err)
					}
					if err := checkAnswer(l.wait(back), 16, 3); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
}

// tagOf is a tag as our side and as the peer's commands say it.
type tagOf struct {
	ours   ucx.UCXXTag
	theirs pypeer.Command
}

var tags = []tagOf{
	{ucx.DefaultTag, pypeer.Command{}},
	{ucx.UserTag(7), pypeer.Command{"tag": 7}},
	{ucx.UserTag(-1), pypeer.Command{"tag": -1}},
	{ucx.UserTag(int64(math.MinInt64)), pypeer.Command{"tag": int64(math.MinInt64)}},
	{ucx.UserTag(uint64(math.MaxUint64)), pypeer.Command{"tag": uint64(math.MaxUint64)}},
	{ucx.ForceTag(1<<63 + 5), pypeer.Command{"tag": uint64(1<<63 + 5), "force_tag": true}},
}

func (t tagOf) with(c pypeer.Command) pypeer.Command {
	for k, v := range t.theirs {
		c[k] = v
	}
	return c
}

func TestTags(t *testing.T) {
	bothWays(t, func(l *link) {
		for i, tag := range tags {
			for _, n := range sizes {
				buf := make([]byte, n)
				recv := async(func() error {
					m, err := l.ep.Recv(l.ctx, ucx.Bytes(buf), tag.ours)
					if err == nil {
						err = check(buf[:m], n, i)
					}
					return err
				})
				l.do("send", l.command(tag.with(pypeer.Command{"data": pypeer.Data(n, i)})))
				if err := <-recv; err != nil {
					l.Fatalf("tag %d, %d bytes to us: %v", i, n, err)
				}
				send := async(func() error { return l.ep.Send(l.ctx, ucx.Bytes(pypeer.NewPattern(n, i+1)), tag.ours) })
				a := l.do("recv", l.command(tag.with(pypeer.Command{"size": n})))
				if err := checkAnswer(a, n, i+1); err != nil {
					l.Errorf("tag %d: %v", i, err)
				}
				if err := <-send; err != nil {
					l.Fatalf("tag %d, %d bytes to the peer: %v", i, n, err)
				}
			}
		}
	})
}

// Messages with different tags pass each other.
func TestTagsMatchByThemselves(t *testing.T) {
	bothWays(t, func(l *link) {
		var sends []*pypeer.Pending
		for i := range 4 {
			sends = append(sends, l.post("send", l.command(pypeer.Command{"data": pypeer.Data(100, i), "tag": i})))
		}
		for i := 3; i >= 0; i-- {
			buf := make([]byte, 100)
			if _, err := l.ep.Recv(l.ctx, ucx.Bytes(buf), ucx.UserTag(i)); err != nil {
				l.Fatal(err)
			}
			if err := check(buf, 100, i); err != nil {
				l.Errorf("tag %d: %v", i, err)
			}
		}
		for _, p := range sends {
			l.wait(p)
		}
		if err := l.ep.Send(l.ctx, ucx.Bytes(make([]byte, 33)), ucx.UserTag(9)); err != nil {
			l.Fatal(err)
		}
		for l.ctx.Err() == nil {
			if a := l.do("probe", l.command(pypeer.Command{"tag": 9})); a.Matched {
				if a.Length != 33 {
					l.Errorf("the peer's probe says %d bytes", a.Length)
				}
				return
			}
			time.Sleep(time.Millisecond)
		}
	})
}

func TestObjects(t *testing.T) {
	bothWays(t, func(l *link) {
		for _, n := range []int{0, 12345, 1 << 20} {
			send := l.post("send_obj", l.command(pypeer.Command{"data": pypeer.Data(n, 1)}))
			b, err := l.ep.RecvObject(l.ctx, ucx.DefaultTag, nil, 1<<20)
			if err != nil {
				l.Fatal(err)
			}
			if err := check(b.Bytes(), n, 1); err != nil {
				l.Error(err)
			}
			l.wait(send)
			recv := l.post("recv_obj", l.command(pypeer.Command{"tag": 4}))
			if err := l.ep.SendObject(l.ctx, ucx.Bytes(pypeer.NewPattern(n, 2)), ucx.UserTag(4)); err != nil {
				l.Fatal(err)
			}
			if err := checkAnswer(l.wait(recv), n, 2); err != nil {
				l.Error(err)
			}
		}
	})
}

// A receive that nothing matches can be given up without harm.
func TestReceiveDeadline(t *testing.T) {
	bothWays(t, func(l *link) {
		short, cancel := context.WithTimeout(l.ctx, 50*time.Millisecond)
		defer cancel()
		if _, err := l.ep.Recv(short, ucx.Bytes(make([]byte, 5000)), ucx.DefaultTag); !errors.Is(err,
			context.DeadlineExceeded) {
			l.Fatalf("got %v", err)
		}
		send := l.post("send", l.command(pypeer.Command{"data": pypeer.Data(5000, 1)}))
		buf := make([]byte, 5000)
		if _, err := l.ep.Recv(l.ctx, ucx.Bytes(buf), ucx.DefaultTag); err != nil {
			l.Fatal(err)
		}
		if err := check(buf, 5000, 1); err != nil {
			l.Error(err)
		}
		l.wait(send)
	})
}

// Too long a message is reported with both lengths.
func TestTruncated(t *testing.T) {
	bothWays(t, func(l *link) {
		for _, n := range []int{101, 100_000} {
			send := l.post("send", l.command(pypeer.Command{"data": pypeer.Data(n, 1)}))
			_, err := l.ep.Recv(l.ctx, ucx.Bytes(make([]byte, 100)), ucx.DefaultTag)
			var te *ucx.TruncatedError
			if !errors.As(err, &te) || te.Buffer != 100 || te.Message != 0 && te.Message != n {
				l.Errorf("%d bytes into 100: %v", n, err)
			}
			l.wait(send)
		}
	})
}
