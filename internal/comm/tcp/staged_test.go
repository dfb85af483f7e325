package tcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/device/staging"
	"go.millstream.dev/internal/device/staging/stagetest"
	"go.millstream.dev/internal/testkit/leak"
	"go.millstream.dev/mem"
	"go.millstream.dev/secure"
	"go.millstream.dev/wire"
)

// stagedPair connects two comms. TLS makes certificates.
func stagedPair(t *testing.T, scheme string, dial comm.DialConfig, listen comm.ListenConfig) (a, b *conn) {
	t.Helper()
	if scheme == "tls" {
		ca, err := secure.NewCA(secure.CAConfig{})
		if err != nil {
			t.Fatal(err)
		}
		id, err := ca.Issue(secure.Request{Roles: []secure.Role{secure.Worker}})
		if err != nil {
			t.Fatal(err)
		}
		var errs [2]error
		dial.TLS, errs[0] = id.Dial()
		listen.TLS, errs[1] = id.Listen()
		if err := errors.Join(errs[:]...); err != nil {
			t.Fatal(err)
		}
	}
	tested := backend{TLS: scheme == "tls"}
	l, err := tested.Listen(t.Context(), "127.0.0.1:0", listen)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	accepted := make(chan comm.Comm, 1)
	go func() {
		c, _ := l.Accept(ctx)
		accepted <- c
	}()
	dialed, err := tested.Dial(ctx, strings.TrimPrefix(l.ContactAddr(), scheme+"://"), dial)
	if err != nil {
		t.Fatal(err)
	}
	a, _ = dialed.(*conn)
	b, _ = (<-accepted).(*conn)
	if b == nil {
		t.Fatal("nobody was accepted")
	}
	t.Cleanup(func() { _ = a.Close(); _ = b.Close() })
	return a, b
}

func exchange(t *testing.T, from, to comm.Comm, m *wire.Message) *wire.Message {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	sent := make(chan error, 1)
	go func() { sent <- from.Write(ctx, m) }()
	got, err := to.Read(ctx)
	if err := errors.Join(err, <-sent); err != nil {
		t.Fatal(err)
	}
	return got
}

var stagedSizes = []int{0, 1, 100, 20_000, 64<<10 + 1, staging.Unit - 1, staging.Unit, spreadFrom - 1, spreadFrom,
	2*spreadFrom + 13, 9*staging.Unit + 1}

// TestStagedFrames sends frames on GPUs among others, both ways, over one connection and over several.
func TestStagedFrames(t *testing.T) {
	for _, scheme := range []string{"tcp", "tls"} {
		for _, lines := range []int{1, 4} {
			t.Run(fmt.Sprint(scheme, " ", lines), func(t *testing.T) {
				leak.Check(t, leak.Wait(30*time.Second))
				da, db := stagetest.Install(t), stagetest.Install(t)
				a, b := stagedPair(t, scheme,
					comm.DialConfig{Device: da.Memory(), Staged: comm.StagedConfig{Stripes: lines}},
					comm.ListenConfig{Device: db.Memory()})
				if len(a.stripes.get()) != lines-1 ||
					len(b.stripes.get()) != lines-1 || !a.Info().CUDA || !b.Info().CUDA {
					t.Fatalf("%d and %d further lines", len(a.stripes.get()), len(b.stripes.get()))
				}
				for i, n := range stagedSizes {
					if scheme == "tls" && i%3 != 2 {
						continue // the same code above the cipher
					}
					data, host := stagetest.Random(n), stagetest.Random(n/3+1)
					m := &wire.Message{Frames: []wire.Frame{
						wire.HeapFrame([]byte("body")), da.Frame(t, data), wire.HeapFrame(host),
						da.Frame(t, data[:n/2]), wire.HeapFrame(host).WithCUDA(),
					}}
					there := exchange(t, a, b, m)
					m.Release()
					back := exchange(t, b, a, there)
					there.Release()
					for i, want := range [][]byte{[]byte("body"), data, host, data[:n/2], host} {
						f := back.Frames[i]
						if f.OnDevice() != (i%2 == 1 || i == 4) {
							t.Errorf("%d bytes: frame %d on a device: %v", n, i, f.OnDevice())
						}
						if !bytes.Equal(stagetest.Contents(t, f), want) {
							t.Errorf("%d bytes: frame %d came as others", n, i)
						}
					}
					if back.Frames[1].Buffer().Device() != da.Ordinal() {
						t.Error("on another device")
					}
					back.Release()
				}
				_ = a.Close()
				_ = b.Close()
			})
		}
	}
}

// full is a device without room.
type fullDevice struct{ mem.Resource }

func (fullDevice) Alloc(context.Context, int) (*mem.Buffer, error) { return nil, mem.ErrOutOfMemory }

// TestStagedToHost: where the receiver has no GPU, a full one, or does not know of staging, the bytes arrive in host
// memory.
func TestStagedToHost(t *testing.T) {
	d := stagetest.Install(t)
	for _, tc := range []struct {
		about  string
		listen comm.ListenConfig
		flag   bool
		lines  int
	}{
		{"no GPU", comm.ListenConfig{}, true, 0},
		{"a full one", comm.ListenConfig{Device: fullDevice{d.Memory()}}, true, 2},
		{"a peer that does not know", comm.ListenConfig{Staged: comm.StagedConfig{Mode: comm.StagedOff}}, false, 0},
	} {
		t.Run(tc.about, func(t *testing.T) {
			a, b := stagedPair(t, "tcp", comm.DialConfig{Device: d.Memory(), Staged: comm.StagedConfig{Stripes: 3}},
				tc.listen)
			if n := len(a.stripes.get()); n != tc.lines {
				t.Errorf("%d further lines", n)
			}
			for _, n := range stagedSizes {
				data := stagetest.Random(n)
				m := &wire.Message{Frames: []wire.Frame{wire.HeapFrame([]byte("body")), d.Frame(t, data),
					wire.HeapFrame([]byte("end"))}}
				got := exchange(t, a, b, m)
				m.Release()
				if f := got.Frames[1]; f.OnDevice() || f.CUDA() != tc.flag || !bytes.Equal(f.Bytes(), data) {
					t.Errorf("%d bytes: on a device %v, flagged %v, or others", n, f.OnDevice(), f.CUDA())
				}
				if string(got.Frames[2].Bytes()) != "end" || got.Frames[2].CUDA() {
					t.Error("the frame behind is another")
				}
				got.Release()
			}
		})
	}
}

// TestStagedOff refuses, before anything is sent.
func TestStagedOff(t *testing.T) {
	d := stagetest.Install(t)
	a, b := stagedPair(t, "tcp", comm.DialConfig{Device: d.Memory(), Staged: comm.StagedConfig{Mode: comm.StagedOff}},
		comm.ListenConfig{Device: d.Memory()})
	m := &wire.Message{Frames: []wire.Frame{wire.HeapFrame([]byte("body")), d.Frame(t, stagetest.Random(10))}}
	defer m.Release()
	if err := a.Write(t.Context(), m); err == nil || !strings.Contains(err.Error(), "millstream.comm.staged") {
		t.Errorf("sent, %v", err)
	}
	after := &wire.Message{Frames: []wire.Frame{wire.HeapFrame([]byte("body"))}}
	exchange(t, a, b, after).Release()
}

// TestOneLine: a side that wants no further connections has none, whatever the other one would like.
func TestOneLine(t *testing.T) {
	d := stagetest.Install(t)
	one, more := comm.StagedConfig{Stripes: 1}, comm.StagedConfig{Stripes: 4}
	for _, s := range [][2]comm.StagedConfig{{one, more}, {more, one}} {
		a, b := stagedPair(t, "tcp", comm.DialConfig{Device: d.Memory(), Staged: s[0]},
			comm.ListenConfig{Device: d.Memory(), Staged: s[1]})
		if a.stripes.get() != nil || b.stripes.get() != nil {
			t.Errorf("%+v: there are lines", s)
		}
		data := stagetest.Random(spreadFrom)
		m := &wire.Message{Frames: []wire.Frame{wire.HeapFrame([]byte("body")), d.Frame(t, data)}}
		got := exchange(t, a, b, m)
		m.Release()
		if !got.Frames[1].OnDevice() || !bytes.Equal(stagetest.Contents(t, got.Frames[1]), data) {
			t.Error("it came as another")
		}
		got.Release()
	}
}

// TestStagedEnds: the end of the peer, of the context or of the device in the middle of a frame ends the comm on both
// sides, and all memory comes back (stagetest looks).
func TestStagedEnds(t *testing.T) {
	gone := errors.New("the device is gone")
	for _, tc := range []struct {
		about string
		do    func(a, b *conn, da, db *stagetest.Device, cancel func())
		want  error // in the sender's error
	}{
		{"peer aborts", func(_, b *conn, _, _ *stagetest.Device, _ func()) { b.Abort() }, comm.ErrClosed},
		{"a line ends", func(_, b *conn, _, _ *stagetest.Device, _ func()) {
			b.stripes.get()[0].Abort()
		}, comm.ErrClosed},
		{"context", func(_, _ *conn, _, _ *stagetest.Device, cancel func()) { cancel() }, context.Canceled},
		{"copy", func(_, b *conn, da, _ *stagetest.Device, _ func()) {
			da.FailCopy(3, gone)
			go func() { _, _ = b.Read(context.Background()) }()
		}, gone},
		{"copy of the receiver", func(_, b *conn, _, db *stagetest.Device, _ func()) {
			db.FailCopy(3, gone)
			go func() { _, _ = b.Read(context.Background()) }()
		}, comm.ErrClosed},
	} {
		t.Run(tc.about, func(t *testing.T) {
			leak.Check(t, leak.Wait(30*time.Second))
			da, db := stagetest.Install(t), stagetest.Install(t)
			a, b := stagedPair(t, "tcp", comm.DialConfig{Device: da.Memory(), Staged: comm.StagedConfig{Stripes: 2}},
				comm.ListenConfig{Device: db.Memory()})
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			data := stagetest.Random(32 << 20) // more than the sockets of two lines hold
			m := &wire.Message{Frames: []wire.Frame{wire.HeapFrame([]byte("body")), da.Frame(t, data)}}
			if tc.want == gone {
				tc.do(a, b, da, db, cancel)
			}
			done := make(chan error, 1)
			go func() { done <- a.Write(ctx, m) }()
			if tc.want != gone {
				for b.stripes.get()[0].waiting() == 0 { // the transfer is in flight
					time.Sleep(time.Millisecond)
				}
				tc.do(a, b, da, db, cancel)
			}
			select {
			case err := <-done:
				if !errors.Is(err, tc.want) {
					t.Errorf("the sender heard %v", err)
				}
			case <-time.After(time.Minute):
				t.Fatal("the sender still waits")
			}
			m.Release()
			if a.Err() == nil {
				t.Error("the comm lives on in the middle of a message")
			}
			select {
			case <-b.Done():
			case <-time.After(time.Minute):
				t.Error("the receiver does not notice")
			}
			_ = a.Close()
			_ = b.Close()
		})
	}
}
