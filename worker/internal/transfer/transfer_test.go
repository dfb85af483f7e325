package transfer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

// A fetch returns the keys that the peer has, and both sides record it.
func TestFetch(t *testing.T) {
	a, b := start(t, Config{}), start(t, Config{})
	large := bytes.Repeat([]byte("wheat"), 400_000)
	keys := []task.Key{a.put("n", 5), a.put("large", large), task.NewKey("none")}
	f := b.get(t, a.address, keys...)
	got := live(t, f)
	if len(got) != 2 || fmt.Sprint(got["n"]) != "5" || !bytes.Equal(got["large"].([]byte), large) {
		t.Errorf("got %d values, n %v", len(got), got["n"])
	}
	if f.Took.Start == 0 || f.Took.Stop < f.Took.Start || f.Device {
		t.Errorf("fetch: got %+v", f)
	}
	in := b.Records()
	if len(in) != 1 || !in[0].Incoming || in[0].Keys != 2 || in[0].Peer != a.address || in[0].Scheme != "tcp" ||
		in[0].Bytes < int64(len(large)) || in[0].Error != "" {
		t.Errorf("record of the receiver: got %+v", in)
	}
	waitFor(t, func() bool { return len(a.Records()) == 1 && a.Counts().Open == 0 })
	out := a.Records()[0]
	if out.Incoming || out.Keys != 2 || out.Peer != b.address || out.Bytes < int64(len(large)) || out.Error != "" {
		t.Errorf("record of the sender: got %+v", out)
	}
	if c := a.Counts(); c.Total != 1 || c.TotalBytes < int64(len(large)) || c.OpenBytes != 0 {
		t.Errorf("counts %+v", c)
	}
	total, _ := b.Bandwidths().Get("total")
	if total == float64(startBandwidth) {
		t.Error("bandwidth unchanged after a large transfer")
	}
}

func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("timeout")
		}
	}
}

// A pooled connection that has ended unnoticed is replaced: the request is sent again.
func TestFetchAgain(t *testing.T) {
	a, b := start(t, Config{}), start(t, Config{})
	k := a.put("n", 5)
	for range 2 {
		live(t, b.get(t, a.address, k))
		c, err := b.peers.Acquire(t.Context(), a.address)
		if err != nil {
			t.Fatal(err)
		}
		b.peers.Release(a.address, c)
		_ = c.Close() // after its release: unnoticed by the pool
	}
}

// mute is a network whose comms break after the first message that they send.
type mute struct{ comm.Network }

func (m mute) Dial(ctx context.Context, address string, cfg comm.DialConfig) (comm.Comm, error) {
	c, err := m.Network.Dial(ctx, address, cfg)
	return &muteComm{Comm: c}, err
}

type muteComm struct {
	comm.Comm
	sent bool
}

func (c *muteComm) Write(ctx context.Context, m *wire.Message) error {
	if c.sent {
		c.Abort()
		return comm.ErrClosed
	}
	c.sent = true
	return c.Comm.Write(ctx, m)
}

// Received data counts, also when its acknowledgement is lost.
func TestFetchAckLost(t *testing.T) {
	a, b := start(t, Config{}), start(t, Config{Network: mute{comm.Default}})
	f := b.get(t, a.address, a.put("n", 5))
	if got := live(t, f); fmt.Sprint(got["n"]) != "5" {
		t.Errorf("got %v, want 5", got)
	}
	if r := b.Records(); len(r) != 1 || r[0].Error != "" || r[0].Keys != 1 {
		t.Errorf("record: got %+v, want one key and no error", r)
	}
}

func TestFetchUnreachable(t *testing.T) {
	b := start(t, Config{Dial: comm.DialConfig{Timeout: 200 * time.Millisecond}})
	f := b.get(t, "tcp://127.0.0.1:1", task.NewKey("n"))
	if f.Err == nil || errors.Is(f.Err, ErrUnreadable) || len(f.Values) > 0 {
		t.Errorf("got %+v, want an error of the connection", f)
	}
	if r := b.Records(); len(r) != 1 || r[0].Error == "" {
		t.Errorf("record: got %+v", r)
	}
}

// Unreadable replies are not requested again.
func TestFetchUnreadable(t *testing.T) {
	for name, reply := range map[string]any{
		"a list":        []any{1},
		"no status":     msgpack.MapOf("data", msgpack.Map{}),
		"data of lists": msgpack.MapOf("status", "OK", "data", []any{1}),
		"an error":      msgpack.MapOf("status", "uncaught-error", "exception_text", "x"),
	} {
		a, b := start(t, Config{}), start(t, Config{})
		asked := 0
		a.server.Handle("get_data", func(context.Context, *rpc.Request) (any, error) { asked++; return reply, nil })
		if f := b.get(t, a.address, task.NewKey("n")); !errors.Is(f.Err, ErrUnreadable) || asked != 1 {
			t.Errorf("%s: got %v after %d requests", name, f.Err, asked)
		}
	}
}

// Only requested values of a reply count, and the first of two for one key.
func TestReadData(t *testing.T) {
	m, err := wire.Encode(msgpack.MapOf("status", "OK", "data", msgpack.Map{{Key: "b", Value: 2}, {Key: "x", Value: 9},
		{Key: "a", Value: 1}, {Key: "b", Value: 3}, {Key: "a", Value: 4}}), wire.EncodeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	values, stored, busy, err := readData(m, []task.Key{task.NewKey("a"), task.NewKey("b"), task.NewKey("c")})
	if err != nil || busy {
		t.Fatalf("busy %v, %v; want data", busy, err)
	}
	var got []string
	for i, v := range values {
		x, _ := v.Live()
		got = append(got, fmt.Sprint(stored[i].Key, "=", x))
	}
	if want := []string{"b=2", "a=1"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// Above its limit a worker is busy; the limit is doubled for peers on the same host, and one while the worker is
// paused.
func TestBusy(t *testing.T) {
	for _, c := range []struct {
		open   int64
		paused bool
		busy   bool
	}{{0, false, false}, {5, false, false}, {6, false, true}, {0, true, false}, {1, true, true}} {
		a, b := start(t, Config{Outgoing: 3}), start(t, Config{})
		a.paused = c.paused
		a.outgoing.Store(c.open)
		f := b.get(t, a.address, a.put("n", 5))
		if f.Err != nil || f.Busy != c.busy {
			t.Errorf("%d open, paused %v: busy is %v (%v), want %v", c.open, c.paused, f.Busy, f.Err, c.busy)
		}
		waitFor(t, func() bool { return a.outgoing.Load() == c.open })
		if r := b.Records(); c.busy != (r[0].Error == "busy") {
			t.Errorf("record: got %+v", r)
		}
	}
}

// FetchOne tries the holders in order, waits for a busy one, and skips its own address.
func TestFetchOne(t *testing.T) {
	without, with := start(t, Config{}), start(t, Config{Outgoing: 1})
	b := start(t, Config{Dial: comm.DialConfig{Timeout: 200 * time.Millisecond}})
	k := with.put("n", 5)
	holders := []string{b.address, "tcp://127.0.0.1:1", without.address, with.address}
	with.outgoing.Store(2)
	time.AfterFunc(50*time.Millisecond, func() { with.outgoing.Store(0) })
	f, ok := b.FetchOne(t.Context(), k, holders)
	if !ok || f.Peer != with.address || fmt.Sprint(live(t, f)["n"]) != "5" {
		t.Errorf("got %+v, %v", f, ok)
	}
	if f, ok := b.FetchOne(t.Context(), k, holders[:3]); ok {
		t.Errorf("peers without the key: got %+v", f)
	}
	ctx, cancel := context.WithCancel(t.Context())
	with.outgoing.Store(2)
	time.AfterFunc(20*time.Millisecond, cancel)
	if f, ok := b.FetchOne(ctx, k, holders[3:]); ok || ctx.Err() == nil {
		t.Errorf("busy peer: got %+v", f)
	}
	with.outgoing.Store(0)
}

// A value that cannot be encoded is an error for its users, not for the others.
func TestWhatStays(t *testing.T) {
	a, b := start(t, Config{}), start(t, Config{})
	keys := []task.Key{a.put("actor", 1), a.put("channel", make(chan int)), a.put("n", 5)}
	a.actors[keys[0]] = true
	got := live(t, b.get(t, a.address, keys...))
	if fmt.Sprint(got["n"]) != "5" {
		t.Errorf("n is %v, want 5", got["n"])
	}
	for key, want := range map[string]string{"actor": "actor", "channel": "cannot leave its worker"} {
		if err, ok := got[key].(error); !ok || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want an error with %q", key, got[key], want)
		}
	}
}

// The connection of a peer that does not acknowledge is closed: it occupies a slot that others need.
func TestNoAck(t *testing.T) {
	a := start(t, Config{AckTimeout: 20 * time.Millisecond})
	a.put("n", 5)
	c, err := comm.Default.Dial(t.Context(), a.address, comm.DialConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Abort()
	var reply msgpack.Map
	if err := rpc.Call(t.Context(), c, "get_data", msgpack.MapOf("keys", []any{"n"}, "who", "someone"),
		&reply); err != nil {
		t.Fatal(err)
	}
	select {
	case <-c.Done():
	case <-time.After(time.Minute):
		t.Fatal("connection not closed")
	}
	waitFor(t, func() bool { return len(a.Records()) == 1 })
	if r := a.Records()[0]; r.Peer != "someone" || !strings.Contains(r.Error, "acknowledge") {
		t.Errorf("record: got %+v", r)
	}
}

func TestAckTime(t *testing.T) {
	m := &Manager{cfg: Config{AckTimeout: time.Second}}
	if got := m.ackTime(10 << 20); got != 11*time.Second {
		t.Errorf("ackTime of 10 MiB: got %v, want 11s", got)
	}
}

// Any reply other than "OK" to data is an error.
func TestWrongAck(t *testing.T) {
	a := start(t, Config{})
	a.put("n", 5)
	c, err := comm.Default.Dial(t.Context(), a.address, comm.DialConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Abort()
	var reply msgpack.Map
	if err := rpc.Call(t.Context(), c, "get_data", msgpack.MapOf("keys", []any{"n"}), &reply); err != nil {
		t.Fatal(err)
	}
	no, err := wire.Encode("no", wire.EncodeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Write(t.Context(), no); err != nil {
		t.Fatal(err)
	}
	<-c.Done()
	waitFor(t, func() bool { return len(a.Records()) == 1 })
	if r := a.Records()[0]; !strings.Contains(r.Error, "instead of OK") {
		t.Errorf("record: got %+v", r)
	}
}

func TestGetDataArguments(t *testing.T) {
	a, b := start(t, Config{}), start(t, Config{})
	for _, args := range []msgpack.Map{{}, msgpack.MapOf("keys", 5)} {
		err := b.peers.Call(t.Context(), a.address, "get_data", args, nil)
		var remote *rpc.RemoteError
		if !errors.As(err, &remote) || !strings.Contains(err.Error(), "keys") {
			t.Errorf("%v: got %v", args, err)
		}
	}
	if n := a.Counts().Open; n != 0 {
		t.Errorf("got %d open transfers, want 0", n)
	}
}

func TestEcho(t *testing.T) {
	a, b := start(t, Config{}), start(t, Config{Dial: comm.DialConfig{Timeout: 200 * time.Millisecond}})
	if err := b.Echo(t.Context(), a.address, []byte("x")); err != nil {
		t.Error(err)
	}
	if err := b.Echo(t.Context(), "tcp://127.0.0.1:1", []byte("x")); err == nil {
		t.Error("echo without a peer: got no error")
	}
}

func TestDialTimeout(t *testing.T) {
	for configured, want := range map[time.Duration]time.Duration{0: 3 * time.Second, time.Second: time.Second,
		time.Hour: 3 * time.Second} {
		if got := dialTimeout(configured); got != want {
			t.Errorf("%v: got %v, want %v", configured, got, want)
		}
	}
}
