package interop

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/comm/ucxcomm"
	"go.millstream.dev/internal/comm/commaddr"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/tests/interop/pypeer"
	"go.millstream.dev/wire"
)

// ucxCommPeer is distributed.comm with distributed-ucxx.
const ucxCommPeer = "ucxcomm_peer.py"

// ucxRig is one process of Dask's comms and a backend of ours.
type ucxRig struct {
	asker
	b      comm.Backend
	scheme string

	settings ucxcomm.Settings
}

// ucxModes are the settings under which everything must work: both ends have them.
var ucxModes = []struct {
	name     string
	settings ucxcomm.Settings
	env      []string
}{
	{"nothing set", ucxcomm.Settings{}, nil},
	{"tcp", ucxcomm.Settings{Options: map[string]string{"TLS": "tcp"}}, []string{"UCX_TLS=tcp"}},
	{"multi-buffer", ucxcomm.Settings{MultiBuffer: true}, []string{"DASK_DISTRIBUTED_UCXX__MULTI_BUFFER=True"}},
}

func newUCXRig(t *testing.T, scheme string, s ucxcomm.Settings, env ...string) *ucxRig {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	log := new(lockedBuffer)
	peer, err := pypeer.Start(ctx, log, env, ucxCommPeer)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		peer.Kill()
		if t.Failed() {
			t.Logf("log of the peer:\n%s", log)
		}
	})
	s.Library = config().Library
	return &ucxRig{asker: asker{t, ctx, peer}, b: ucxcomm.New(scheme, s), scheme: scheme, settings: s}
}

// eachUCXMode runs a test in every mode, in both directions.
func eachUCXMode(t *testing.T, f func(*ucxLink)) {
	for i, m := range ucxModes {
		t.Run(m.name, func(t *testing.T) {
			r := newUCXRig(t, []string{"ucxx", "ucx"}[i%2], m.settings, m.env...)
			for _, way := range []string{"we dial", "we listen"} {
				t.Run(way, func(t *testing.T) {
					sub := *r
					sub.T = t
					f(sub.link(way))
				})
			}
		})
	}
}

// ucxLink is one comm: our end and the name of the peer's.
type ucxLink struct {
	*ucxRig
	c     comm.Comm
	name  string
	their pypeer.Answer
}

func (r *ucxRig) link(way string) *ucxLink {
	r.Helper()
	if way == "we dial" {
		return r.dial(false)
	}
	return r.listen(comm.ListenConfig{})
}

// dial connects us to the peer, who echoes if asked to.
func (r *ucxRig) dial(echo bool) *ucxLink {
	r.Helper()
	address := r.do("listen", pypeer.Command{"address": r.scheme + "://127.0.0.1:0", "echo": echo}).Address
	scheme, loc := commaddr.Parse(address)
	if scheme != r.scheme {
		r.Fatalf("the peer listens on %s", address)
	}
	c, err := r.b.Dial(r.ctx, loc, comm.DialConfig{})
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { c.Close() })
	a, err := r.peer.Event(r.ctx, "accepted")
	if err != nil {
		r.Fatal(err)
	}
	return &ucxLink{ucxRig: r, c: c, name: a.EP, their: a}
}

// listen lets the peer connect to us.
func (r *ucxRig) listen(cfg comm.ListenConfig) *ucxLink {
	r.Helper()
	l, err := r.b.Listen(r.ctx, "127.0.0.1:0", cfg)
	if err != nil {
		r.Fatal(err)
	}
	defer l.Close()
	p := r.post("connect", pypeer.Command{"address": l.ContactAddr()})
	c, err := l.Accept(r.ctx)
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { c.Close() })
	a := r.wait(p)
	return &ucxLink{ucxRig: r, c: c, name: a.EP, their: a}
}

func (l *ucxLink) command(c pypeer.Command) pypeer.Command {
	out := pypeer.Command{"ep": l.name}
	for k, v := range c {
		out[k] = v
	}
	return out
}

// noise is what the peer makes of {"size": size, "seed": seed}.
func noise(size, seed int) []byte {
	b := make([]byte, 0, size+7)
	for i := uint64(0); len(b) < size; i++ {
		z := (uint64(seed)<<32 + i + 1) * 0x9E3779B97F4A7C15
		z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
		z = (z ^ z>>27) * 0x94D049BB133111EB
		b = binary.LittleEndian.AppendUint64(b, z^z>>31)
	}
	return b[:size]
}

// checkNoise holds what the peer read against the buffers of a message.
func checkNoise(got []pypeer.Frame, sizes []int) error {
	if len(got) != len(sizes) {
		return fmt.Errorf("the peer got %d buffers instead of %d", len(got), len(sizes))
	}
	for i, n := range sizes {
		if got[i].Size != int64(n) || got[i].SHA256 != pypeer.Sum(noise(n, i)) {
			return fmt.Errorf("the peer's buffer %d has %d bytes instead of %d, or other ones", i, got[i].Size, n)
		}
	}
	return nil
}

// ucxBytesClass is the pickle of Python's class bytes.
const ucxBytesClass = "\x80\x04\x8c\x08builtins\x8c\x05bytes\x93."

// ucxDaskMessage is {"op": text, "data": [Serialize(bytes), …]} as Dask writes it.
func ucxDaskMessage(text string, sizes []int) *wire.Message {
	body := msgpack.AppendMapHeader(nil, 2)
	body = msgpack.AppendString(msgpack.AppendString(body, "op"), text)
	body = msgpack.AppendArrayHeader(msgpack.AppendString(body, "data"), len(sizes))
	m := &wire.Message{Frames: make([]wire.Frame, 1)}
	for i, n := range sizes {
		body = msgpack.AppendMapHeader(body, 1)
		body = msgpack.AppendInt(msgpack.AppendString(body, "__Serialized__"), int64(len(m.Frames)))
		h := msgpack.AppendMapHeader(nil, 5)
		h = msgpack.AppendString(msgpack.AppendString(h, "serializer"), "dask")
		h = msgpack.AppendString(msgpack.AppendString(h, "type"), "bytes")
		h = msgpack.AppendBytes(msgpack.AppendString(h, "type-serialized"), []byte(ucxBytesClass))
		h = msgpack.AppendMapHeader(msgpack.AppendString(h, "sub-header"), 0)
		h = msgpack.AppendInt(msgpack.AppendString(h, "num-sub-frames"), 1)
		m.Frames = append(m.Frames, wire.HeapFrame(h), wire.HeapFrame(noise(n, i)))
	}
	m.Frames[0] = wire.HeapFrame(body)
	return m
}

// checkUCXMessage holds a received message against what ucxDaskMessage makes.
func checkUCXMessage(m *wire.Message, text string, sizes []int) error {
	if len(m.Frames) != 1+2*len(sizes) {
		return fmt.Errorf("%d frames for %d buffers", len(m.Frames), len(sizes))
	}
	if !strings.Contains(string(m.Body()), text) {
		return fmt.Errorf("the body %q has no %q", m.Body(), text)
	}
	for i, n := range sizes {
		if got := m.Frames[2+2*i]; !bytes.Equal(got.Bytes(), noise(n, i)) {
			return fmt.Errorf("buffer %d has %d bytes instead of %d, or other ones", i, got.Len(), n)
		}
	}
	return nil
}
