package transfer

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/comm/peermem"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

// allowSameProcess allows loans between the nodes of a test.
func allowSameProcess(t *testing.T) {
	peermem.SameProcess.Store(true)
	t.Cleanup(func() { peermem.SameProcess.Store(false) })
}

// large returns a value that is lent.
func large(seed byte) []byte {
	b := make([]byte, 5<<20)
	for i := range b {
		b[i] = seed + byte(i>>12)
	}
	return b
}

// Large results are read from the memory of the peer, over the data connection and without one, and are copies.
func TestLentResults(t *testing.T) {
	allowSameProcess(t)
	for _, listen := range []string{"tcp://:0", "nonsense://127.0.0.1:0"} {
		a, b := start(t, Config{Listen: listen}), start(t, Config{Listen: listen})
		want := large(3)
		k, small := a.put("large", want), a.put("small", 5)
		f := b.get(t, a.address, k, small)
		got := live(t, f)
		data, _ := got["large"].([]byte)
		if !bytes.Equal(data, want) || len(got) != 2 {
			t.Fatalf("%s: got %d values, %d bytes, want 2 values and the %d bytes of the peer", listen, len(got),
				len(data), len(want))
		}
		if &data[0] == &want[0] {
			t.Errorf("%s: the result shares memory with the peer", listen)
		}
		waitFor(t, func() bool { return len(a.Records()) == 1 })
		for side, r := range map[string]Record{"incoming": b.Records()[0], "outgoing": a.Records()[0]} {
			if !slices.Equal(r.Transports, []string{peermem.Transport}) || r.Bytes < int64(len(want)) || r.Error != "" {
				t.Errorf("%s, %s: got %+v, want a transfer of %d bytes by %s", listen, side, r, len(want),
					peermem.Transport)
			}
		}
	}
}

// A peer whose memory cannot be read sends its results, at once and from then on.
func TestMemoryNotReadable(t *testing.T) {
	allowSameProcess(t)
	a, b := start(t, Config{Listen: "nonsense://127.0.0.1:0"}), start(t, Config{Listen: "tcp://:0"})
	a.server.Handle("get_data", func(ctx context.Context, r *rpc.Request) (any, error) {
		r.Comm = endedLoans{r.Comm}
		return a.GetData(ctx, r)
	})
	for i := range byte(2) {
		want := large(i)
		got := live(t, b.get(t, a.address, a.put("large", want)))
		if data, _ := got["large"].([]byte); !bytes.Equal(data, want) {
			t.Fatalf("got %d bytes, want the %d bytes of the peer", len(data), len(want))
		}
		if r := b.Records()[i]; slices.Contains(r.Transports, peermem.Transport) {
			t.Errorf("got %+v, want a transfer through the connection", r)
		}
	}
	waitFor(t, func() bool { return len(a.Records()) == 3 }) // the first result was lent in vain
	b.Forget(a.address)
}

// endedLoans is a comm whose messages have loans that have ended: the address of the token differs.
type endedLoans struct{ comm.Comm }

func (c endedLoans) Write(ctx context.Context, m *wire.Message) error {
	name := msgpack.AppendString(nil, peermem.Field)
	if at := bytes.Index(m.Body(), name); at >= 0 {
		r := msgpack.NewReader(m.Body()[at+len(name):])
		if _, err := r.ReadArrayLen(); err != nil {
			return err
		}
		if err := r.Skip(); err != nil { // the process ID
			return err
		}
		m.Frames[0].Bytes()[at+len(name)+r.Offset()+8] ^= 0x40 // the last byte of the address
	}
	return c.Comm.Write(ctx, m)
}

// A worker without data connections lends no memory.
func TestNothingLent(t *testing.T) {
	allowSameProcess(t)
	a, b := start(t, Config{}), start(t, Config{Listen: "tcp://:0"})
	want := large(1)
	got := live(t, b.get(t, a.address, a.put("large", want)))
	if data, _ := got["large"].([]byte); !bytes.Equal(data, want) {
		t.Fatalf("got %d bytes, want the %d bytes of the peer", len(data), len(want))
	}
	if r := b.Records()[0]; slices.Contains(r.Transports, peermem.Transport) {
		t.Errorf("got %+v, want a transfer through the connection", r)
	}
}

// A loan ends when the peer does not acknowledge it: what is read afterwards is refused.
func TestLoanNotAcknowledged(t *testing.T) {
	allowSameProcess(t)
	// Five seconds less than the time for 5 MiB.
	a := start(t, Config{Listen: "tcp://:0", AckTimeout: 20*time.Millisecond - 5*time.Second})
	k := a.put("large", large(1))
	c, err := comm.Default.Dial(t.Context(), a.address, comm.DialConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Abort()
	var peers peermem.Peers
	q := peers.Request(a.address, c)
	if err := c.Write(t.Context(), getDataRequest([]task.Key{k}, "someone", q)); err != nil {
		t.Fatal(err)
	}
	m, err := c.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { return len(a.Records()) == 1 })
	if n, err := q.Resolve(t.Context(), m); err == nil {
		t.Errorf("got %d bytes of a loan that has ended, want an error", n)
	}
}

// A request with an invalid token is an error.
func TestInvalidMemoryRequest(t *testing.T) {
	a, b := start(t, Config{Listen: "tcp://:0"}), start(t, Config{})
	err := b.peers.Call(t.Context(), a.address, "get_data", msgpack.MapOf("keys", []any{}, peermem.Field, 5), nil)
	var remote *rpc.RemoteError
	if !errors.As(err, &remote) || !strings.Contains(err.Error(), peermem.Field) {
		t.Errorf("got %v, want an error about %s", err, peermem.Field)
	}
}
