package interop

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"go.millstream.dev/internal/wire/framing"
	"go.millstream.dev/tests/interop/pypeer"
	"go.millstream.dev/wire"
)

// wirePeer is a Python process with the real packages, see peers/wire_peer.py.
type wirePeer struct {
	t   *testing.T
	in  io.WriteCloser
	out *bufio.Reader
}

// wireAnswer is the JSON of an answer.
type wireAnswer struct {
	Failed string `json:"failed"`
	Error  string `json:"error"`
	Text   string `json:"text"`
	Same   bool   `json:"same"`
	Hits   int    `json:"hits"`
	Texts  []string
	Out    []struct{ Text, Error string }
	Cases  []struct {
		Name, Kind, Text string
		N                int
	}
	Lengths, Missing []int64
}

func newWirePeer(t *testing.T) *wirePeer {
	t.Helper()
	python, err := pypeer.Python()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), python, filepath.Join("peers", "wire_peer.py"))
	// The order of sets of strings is that of the seed.
	cmd.Env = append(os.Environ(), "PYTHONHASHSEED=0", "PYTHONDONTWRITEBYTECODE=1")
	log := new(lockedBuffer)
	cmd.Stderr = log
	cmd.WaitDelay = 10 * time.Second
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close() // it ends the peer
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("log of the peer:\n%s", log)
		}
	})
	return &wirePeer{t: t, in: in, out: bufio.NewReader(out)}
}

// ask sends a request and returns the answer with its frames.
func (p *wirePeer) ask(op string, frames ...[]byte) (wireAnswer, [][]byte) {
	p.t.Helper()
	m := &wire.Message{Frames: []wire.Frame{wire.HeapFrame([]byte(op))}}
	for _, f := range frames {
		m.Frames = append(m.Frames, wire.HeapFrame(f))
	}
	b := framing.Append(nil, m, len(m.Frames))
	for _, f := range m.Frames {
		b = append(b, f.Bytes()...)
	}
	if _, err := p.in.Write(b); err != nil {
		p.t.Fatal(err)
	}
	head := make([]byte, framing.HeadSize)
	if _, err := io.ReadFull(p.out, head); err != nil {
		p.t.Fatalf("%s: %v", op, err)
	}
	n, err := framing.FirstRead(head, framing.Limits{})
	if err != nil {
		p.t.Fatal(err)
	}
	first := make([]byte, n)
	if _, err := io.ReadFull(p.out, first); err != nil {
		p.t.Fatal(err)
	}
	pre, err := framing.Parse(first, n, framing.Limits{})
	if err != nil {
		p.t.Fatal(err)
	}
	got, err := pre.SplitFirst(nil, first)
	if err != nil {
		p.t.Fatal(err)
	}
	for range pre.Missing() { // empty frames at the end
		got = append(got, wire.Frame{})
	}
	var a wireAnswer
	if err := json.Unmarshal(got[0].Bytes(), &a); err != nil {
		p.t.Fatal(err)
	}
	if a.Failed != "" {
		p.t.Fatalf("%s: the peer failed:\n%s", op, a.Failed)
	}
	rest := make([][]byte, len(got)-1)
	for i, f := range got[1:] {
		rest[i] = f.Bytes()
	}
	return a, rest
}

// asMessage makes a message of frames.
func asMessage(frames [][]byte) *wire.Message {
	m := new(wire.Message)
	for _, f := range frames {
		m.Frames = append(m.Frames, wire.HeapFrame(f))
	}
	return m
}

// asBytes are a message's frames.
func asBytes(m *wire.Message) [][]byte {
	out := make([][]byte, len(m.Frames))
	for i, f := range m.Frames {
		out[i] = f.Bytes()
	}
	return out
}
