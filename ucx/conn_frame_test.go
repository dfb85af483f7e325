package ucx

import (
	"bytes"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
)

// Frames that arrive in any order come out in the stream's.
func TestConnReceiverReorders(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		stream := testBytes(rnd.Uint64(), 1+rnd.IntN(20_000))
		type piece struct {
			offset int
			data   []byte
		}
		var pieces []piece
		for at := 0; at < len(stream); {
			n := 1 + rnd.IntN(min(3000, len(stream)-at))
			pieces = append(pieces, piece{at, stream[at : at+n]})
			at += n
		}
		rnd.Shuffle(len(pieces), func(i, j int) { pieces[i], pieces[j] = pieces[j], pieces[i] })
		endAt := rnd.IntN(len(pieces) + 1)
		in := &connReceiver{window: 1 << 20, granted: 1 << 20}
		confirmed := 0
		for i := range len(pieces) + 1 {
			if i == endAt {
				if err := in.setEnd(uint64(len(stream))); err != nil {
					t.Fatal(err)
				}
				if in.confirm() {
					confirmed++
				}
			}
			if i < len(pieces) {
				if err := in.accept(uint64(pieces[i].offset), pieces[i].data); err != nil {
					t.Fatal(err)
				}
				if in.confirm() {
					confirmed++
				}
			}
		}
		if !in.eof() || confirmed != 1 || len(in.early) != 0 || in.earlyBytes != 0 {
			t.Fatalf("eof %v, confirmed %d times, %d pieces left", in.eof(), confirmed, len(in.early))
		}
		if got := drainQueue(&in.queue); !bytes.Equal(got, stream) {
			t.Fatalf("%d bytes of %d, or in another order", len(got), len(stream))
		}
	}
}

func drainQueue(q *connQueue) (out []byte) {
	for q.n > 0 {
		part := q.front()
		out = append(out, part...)
		q.drop(len(part))
	}
	return out
}

func TestConnReceiverRefuses(t *testing.T) {
	data := make([]byte, 100)
	for _, tc := range []struct {
		name string
		do   func(in *connReceiver) error
	}{
		{"more than allowed", func(in *connReceiver) error { return in.accept(0, make([]byte, 2000)) }},
		{"frames beyond the window", func(in *connReceiver) error {
			for i := range 100 { // out of order, so that each counts
				if err := in.accept(uint64(100+i*10), data[:1]); err != nil {
					return err
				}
			}
			return nil
		}},
		{"the past", func(in *connReceiver) error { return errors.Join(in.accept(0, data), in.accept(50, data)) }},
		{"twice", func(in *connReceiver) error { return errors.Join(in.accept(200, data), in.accept(200, data)) }},
		{"past the end", func(in *connReceiver) error { return errors.Join(in.setEnd(50), in.accept(0, data)) }},
		{"two ends", func(in *connReceiver) error { return errors.Join(in.setEnd(50), in.setEnd(60)) }},
		{"an end before what was sent", func(in *connReceiver) error {
			return errors.Join(in.accept(0, data),
				in.setEnd(50))
		}},
		{"overflow", func(in *connReceiver) error { return in.accept(math.MaxUint64-10, data) }},
	} {
		in := &connReceiver{window: 1000, granted: 1000}
		if err := tc.do(in); err == nil {
			t.Errorf("%s: accepted", tc.name)
		}
	}
}

// The credit that comes back equals what was used, whatever way the bytes took.
func TestConnReceiverCredit(t *testing.T) {
	in := &connReceiver{window: minConnWindow, granted: minConnWindow}
	offset := uint64(0)
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 10_000 {
		n := 1 + rnd.IntN(500)
		if in.got+uint64(n)+connFrameCost > in.granted {
			if got := drainQueue(&in.queue); len(got) == 0 {
				t.Fatal("the window is closed and nothing is there to read")
			} else {
				in.used += uint64(len(got))
			}
			if in.grant() == 0 {
				t.Fatalf("everything was read and the window stays closed: used %d, granted %d", in.used, in.granted)
			}
		}
		if err := in.accept(offset, make([]byte, n)); err != nil {
			t.Fatal(err)
		}
		offset += uint64(n)
		if held := in.queue.n; held > minConnWindow {
			t.Fatalf("%d bytes are held in a window of %d", held, minConnWindow)
		}
	}
}

func TestConnHeader(t *testing.T) {
	var b [connHeaderSize]byte
	putConnHeader(&b, connCredit, 0x1122334455667788, 0x99)
	want := []byte{1, 3, 0, 0, 0, 0, 0, 0, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0x99, 0, 0, 0, 0, 0, 0, 0}
	if !bytes.Equal(b[:], want) {
		t.Errorf("header is % x, want % x: peers of other versions would not understand", b[:], want)
	}
	kind, number, value, ok := parseConnHeader(b[:])
	if !ok || kind != connCredit || number != 0x1122334455667788 || value != 0x99 {
		t.Errorf("%v %x %x %v", kind, number, value, ok)
	}
	b[0] = 2
	for _, bad := range [][]byte{nil, b[:5], b[:], append(bytes.Clone(want), 0)} {
		if _, _, _, ok := parseConnHeader(bad); ok {
			t.Errorf("% x was taken for a header", bad)
		}
	}
}

// Frames that no honest peer sends end the connection with an error on both sides;
// other connections of the worker go on.
func TestConnHostileFrames(t *testing.T) {
	w, good := newWorker(t, Config{}, WorkerConfig{}), newWorker(t, Config{}, WorkerConfig{})
	other, otherPeer := connPair(t, good, w, nil)
	for name, frame := range map[string]struct {
		kind  connKind
		value uint64
		data  int
	}{
		"unknown kind":        {77, 0, 0},
		"data behind the end": {connData, math.MaxUint64, 10},
		"empty data":          {connData, 4, 0},
		"rendezvous":          {connData, 4, 100_000},
		"data beyond credit":  {connData, 0, 2 << 20},
		"credit with data":    {connCredit, 5, 10},
		"confirmed too early": {connEndAck, 10, 0},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := connPair(t, newWorker(t, Config{}, WorkerConfig{}), w, nil)
			if _, err := a.Write([]byte("good")); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(b, make([]byte, 4)); err != nil {
				t.Fatal(err)
			}
			var h [connHeaderSize]byte
			putConnHeader(&h, frame.kind, a.lifeline.remote, frame.value)
			opts := AMOptions{Rendezvous: name == "rendezvous"} // its data would have no place
			_ = a.ep.startAM(amConn, h[:], opts, []View{Bytes(make([]byte, frame.data))})
			_, err := io.ReadAll(b)
			if err == nil || !strings.Contains(err.Error(), "protocol violation by the peer") {
				t.Errorf("receiver: %v", err)
			}
			if _, err := io.ReadAll(a); !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("sender: %v, want ECONNRESET", err)
			}
		})
	}
	// Frames for nobody are dropped.
	var h [connHeaderSize]byte
	putConnHeader(&h, connData, 12345, 0)
	for _, header := range [][]byte{h[:], h[:3]} {
		if err := other.ep.sendAM(testContext(t), amConn, header, AMOptions{},
			[]View{Bytes([]byte("stray"))}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := other.Write([]byte("ok")); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 2)
	if _, err := io.ReadFull(otherPeer, got); err != nil || string(got) != "ok" {
		t.Errorf("%q, %v", got, err)
	}
}

// FuzzConnReceiver feeds a receiver frames that anyone could have made up: it never
// holds more than its window, and what it delivers is what was sent for those offsets.
func FuzzConnReceiver(f *testing.F) {
	f.Add([]byte{0, 0, 10, 0, 10, 5, 2, 15, 0})
	f.Add([]byte{0, 5, 10, 0, 0, 5, 1, 0, 0, 2, 15, 0})
	f.Fuzz(func(t *testing.T, ops []byte) {
		in := &connReceiver{window: 4096, granted: 4096}
		var got []byte
		for ; len(ops) >= 3; ops = ops[3:] {
			offset, n := uint64(ops[1]), int(ops[2])
			var err error
			switch ops[0] % 4 {
			case 0:
				data := make([]byte, n)
				for i := range data {
					data[i] = byte(int(offset) + i)
				}
				if n > 0 { // an empty frame is refused before
					err = in.accept(offset, data)
				}
			case 1:
				read := drainQueue(&in.queue)
				in.used += uint64(len(read))
				got = append(got, read...)
				in.grant()
			case 2:
				err = in.setEnd(offset)
			case 3:
				in.confirm()
			}
			if held := in.queue.n + in.earlyBytes; held > 4096 {
				t.Fatalf("%d bytes are held in a window of 4096", held)
			}
			if err != nil {
				return // the connection ends here
			}
		}
		got = append(got, drainQueue(&in.queue)...)
		if uint64(len(got)) != in.next {
			t.Fatalf("%d bytes came out of a stream that is at %d", len(got), in.next)
		}
		for i, b := range got {
			if b != byte(i) {
				t.Fatalf("byte %d is %d", i, b)
			}
		}
	})
}
