package ucx

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"go.millstream.dev/mem"
	"go.millstream.dev/ucx/internal/obs"
	"go.millstream.dev/ucx/internal/wire"
)

// encodeTable is the table message's data of some frames.
func encodeTable(t testing.TB, frames ...View) []byte {
	t.Helper()
	plan, err := planFrames(frames)
	if err != nil {
		t.Fatal(err)
	}
	b := bytes.Repeat([]byte{0xff}, plan.size) // write must clear what it does not fill
	plan.write(b, frames)
	return b
}

// The bytes of version 1: a later release that changes them must change the version.
func TestFrameWireGolden(t *testing.T) {
	h := wire.FrameHeader{Kind: wire.FrameTable, Number: 0x1122334455667788, Seq: 9, N: 2}
	hdr := make([]byte, wire.FrameHeaderSize)
	h.Put(hdr)
	const wantHeader = "4d534652" + "01" + "01" + "0000" + "8877665544332211" + "0900000000000000" + "02000000"
	if got := hex.EncodeToString(hdr); got != wantHeader {
		t.Errorf("header %s, want %s", got, wantHeader)
	}
	if back, err := wire.DecodeFrameHeader(hdr); err != nil || back != h {
		t.Errorf("decoded %+v, %v", back, err)
	}
	const wantTable = "0300000000000000" + "00" + "01" + "000000000000" +
		"2923000000000000" + "00" + "00" + "000000000000" + "6162630000000000"
	data := encodeTable(t, Bytes([]byte("abc")), Bytes(make([]byte, 9001)))
	if got := hex.EncodeToString(data); got != wantTable {
		t.Errorf("table %s, want %s", got, wantTable)
	}
	entries, separate, total, err := wire.DecodeFrameTable(data, 2)
	if err != nil || separate != 1 || total != 9004 {
		t.Fatalf("decoded %d separate, %d bytes, %v", separate, total, err)
	}
	want := []wire.FrameEntry{{N: 3, Offset: 32}, {N: 9001, Offset: -1}}
	if entries[0] != want[0] || entries[1] != want[1] {
		t.Errorf("decoded %+v", entries)
	}
}

func TestFrameTableRefuses(t *testing.T) {
	good := encodeTable(t, Bytes([]byte("abc")), Bytes(make([]byte, 9001)), Bytes(nil))
	change := func(f func(b []byte)) []byte {
		b := bytes.Clone(good)
		f(b)
		return b
	}
	for name, c := range map[string]struct {
		data  []byte
		count int
		says  string
	}{
		"negative count":   {good, -1, "table of -1"},
		"count over data":  {good, 400, "table of 400"},
		"count over limit": {make([]byte, 16*(wire.MaxFrames+1)), wire.MaxFrames + 1, "table of"},
		"no data":          {nil, 1, "table of 1"},
		"cut":              {good[:len(good)-1], 3, "exceeds the message"},
		"bytes behind":     {append(bytes.Clone(good), 0), 3, "after the last"},
		"huge inline": {change(func(b []byte) { binary.LittleEndian.PutUint64(b, 1<<62) }), 3,
			"exceeds the message"},
		"wrapping length": {change(func(b []byte) { binary.LittleEndian.PutUint64(b, 1<<63) }), 3, "frame 0 of"},
		"sum wraps": {change(func(b []byte) { binary.LittleEndian.PutUint64(b[16:], 1<<63-1) }), 3,
			"frame 1 of"},
		"unknown kind":       {change(func(b []byte) { b[8] = 9 }), 3, "kind 9"},
		"unknown flag":       {change(func(b []byte) { b[9] |= 2 }), 3, "unknown flags"},
		"reserved byte":      {change(func(b []byte) { b[15] = 1 }), 3, "unknown flags"},
		"empty but separate": {change(func(b []byte) { b[2*16+9] = 0 }), 3, "empty frame"},
	} {
		if _, _, _, err := wire.DecodeFrameTable(c.data, c.count); err == nil ||
			!strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestFrameHeaderRefuses(t *testing.T) {
	good := make([]byte, wire.FrameHeaderSize)
	(&wire.FrameHeader{Kind: wire.FrameData, Number: 1, Seq: 1, N: 5}).Put(good)
	for name, f := range map[string]func([]byte) []byte{
		"short":       func(b []byte) []byte { return b[:27] },
		"long":        func(b []byte) []byte { return append(b, 0) },
		"magic":       func(b []byte) []byte { b[0] = 'X'; return b },
		"version":     func(b []byte) []byte { b[4] = 2; return b },
		"kind":        func(b []byte) []byte { b[5] = 3; return b },
		"reserved":    func(b []byte) []byte { b[7] = 1; return b },
		"sequence 0":  func(b []byte) []byte { wire.PutFrameSequence(b, 0); return b },
		"frame index": func(b []byte) []byte { binary.LittleEndian.PutUint32(b[24:], wire.MaxFrames); return b },
	} {
		if _, err := wire.DecodeFrameHeader(f(bytes.Clone(good))); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := wire.DecodeFrameHeader(good); err != nil {
		t.Error(err)
	}
}

func TestFramePlan(t *testing.T) {
	device := View{addr: 1 << 40, n: 100, kind: mem.Device}
	plan, err := planFrames([]View{device, Bytes(make([]byte, 8192)), Bytes(make([]byte, 8193)), {kind: mem.Device}})
	if err != nil {
		t.Fatal(err)
	}
	if want := [4]bool{false, true, false, true}; [4]bool(plan.inline) != want || plan.separate != 2 {
		t.Errorf("inline %v, %d separate", plan.inline, plan.separate)
	}
	var many []View
	for range 20 {
		many = append(many, Bytes(make([]byte, 8000)))
	}
	plan, err = planFrames(many)
	if err != nil || plan.size > 20*wire.FrameEntrySize+frameInlineTotal || plan.separate != 12 {
		t.Errorf("size %d, %d separate, %v", plan.size, plan.separate, err)
	}
	if _, err := planFrames(make([]View, wire.MaxFrames+1)); err == nil {
		t.Error("too many frames were accepted")
	}
}

// FuzzFrameTable: whatever a peer sends as a table, decoding allocates in proportion to
// it and every frame lies inside it.
func FuzzFrameTable(f *testing.F) {
	f.Add(encodeTable(f), 0)
	f.Add(encodeTable(f, Bytes([]byte("abc")), Bytes(make([]byte, 9001)), Bytes(nil)), 3)
	f.Add(encodeTable(f, Bytes(make([]byte, 8192))), 1)
	f.Fuzz(func(t *testing.T, data []byte, count int) {
		entries, separate, total, err := wire.DecodeFrameTable(data, count)
		if err != nil {
			return
		}
		if len(entries) != count || count*wire.FrameEntrySize > len(data) {
			t.Fatalf("%d entries of %d frames from %d bytes", len(entries), count, len(data))
		}
		var sum int64
		alone, end := 0, count*wire.FrameEntrySize
		for i, e := range entries {
			sum += int64(e.N)
			if e.Offset < 0 {
				alone++
				continue
			}
			if e.Offset < end || e.Offset+e.N > len(data) {
				t.Fatalf("frame %d at [%d, %d) of %d bytes, after %d", i, e.Offset, e.Offset+e.N, len(data), end)
			}
			end = e.Offset + e.N
		}
		if sum != total || total < 0 || alone != separate {
			t.Fatalf("total %d of %d, separate %d of %d", total, sum, separate, alone)
		}
	})
}

// FuzzFrameHeader: a header that is accepted is one that this side would write.
func FuzzFrameHeader(f *testing.F) {
	b := make([]byte, wire.FrameHeaderSize)
	(&wire.FrameHeader{Kind: wire.FrameTable, Number: 7, Seq: 1, N: 3}).Put(b)
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := wire.DecodeFrameHeader(b)
		if err != nil {
			return
		}
		back := make([]byte, wire.FrameHeaderSize)
		h.Put(back)
		if !bytes.Equal(b, back) {
			t.Fatalf("%x decodes to %+v, which encodes to %x", b, h, back)
		}
	})
}

// rawPart sends a part of a message as a peer that keeps to no protocol would.
func rawPart(t *testing.T, ctx context.Context, ep *Endpoint, h wire.FrameHeader, data []byte) {
	t.Helper()
	hdr := make([]byte, wire.FrameHeaderSize)
	h.Put(hdr)
	if err := ep.sendAM(ctx, amMulti, hdr, AMOptions{Eager: true}, []View{Bytes(data)}); err != nil {
		t.Fatal(err)
	}
}

// A peer that breaks the protocol loses its connection, with an error on both sides.
func TestFramesHostilePeer(t *testing.T) {
	table := encodeTable(t, Bytes([]byte("abc")), Bytes(make([]byte, 9001)))
	type part struct {
		kind byte
		seq  uint64
		n    uint32
		data []byte
	}
	for name, parts := range map[string][]part{
		"bad table":              {{wire.FrameTable, 1, 2, []byte("nonsense")}},
		"table with wrong count": {{wire.FrameTable, 1, 1, table}},
		"table twice":            {{wire.FrameTable, 1, 2, table}, {wire.FrameTable, 1, 2, table}},
		"frame twice":            {{wire.FrameData, 1, 1, table}, {wire.FrameData, 1, 1, table}},
		"frame of wrong length":  {{wire.FrameTable, 1, 2, table}, {wire.FrameData, 1, 1, []byte("short")}},
		"more of an old message": {{wire.FrameTable, 1, 0, nil}, {wire.FrameData, 1, 0, table}},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := testContext(t)
			a, b := pair(t, Config{}, WorkerConfig{})
			for i, p := range parts {
				rawPart(t, ctx, a, wire.FrameHeader{Kind: p.kind, Number: a.lifeline.remote, Seq: p.seq, N: p.n},
					p.data)
				if name == "more of an old message" && i == 0 {
					if _, err := b.RecvFrames(ctx, Allocators{}); err != nil {
						t.Fatal(err)
					}
				}
			}
			if f, err := b.RecvFrames(ctx, Allocators{}); err == nil {
				t.Errorf("received %d frames", len(f))
			}
			waitDone(t, ctx, a, b)
			if b.Err() == nil || errors.Is(b.Err(), ErrClosed) {
				t.Errorf("endpoint's error is %v", b.Err())
			}
		})
	}
}

// Parts that name no connection are dropped and counted; the connection lives.
func TestFramesStray(t *testing.T) {
	ctx := testContext(t)
	drops := make(chan int, 10)
	// room for all: a hook must not block
	cfg := Config{Events: Events{MessageDropped: func(d obs.Drop) { drops <- d.Bytes }}}
	a, b := pair(t, cfg, WorkerConfig{})
	rawPart(t, ctx, a, wire.FrameHeader{Kind: wire.FrameTable, Number: a.lifeline.remote + 2, Seq: 1}, nil)
	if err := a.sendAM(ctx, amMulti, []byte("no header"), AMOptions{},
		[]View{Bytes(make([]byte, 100_000))}); err != nil {
		t.Fatal(err)
	}
	if err := a.SendFrames(ctx, Bytes([]byte("whole"))); err != nil {
		t.Fatal(err)
	}
	got, err := b.RecvFrames(ctx, Allocators{})
	if err != nil || string(got[0].Bytes()) != "whole" {
		t.Fatalf("%v, %v", got, err)
	}
	for range 2 {
		select {
		case <-drops:
		case <-ctx.Done():
			t.Fatal("a dropped message was not told")
		}
	}
}

// Parts in an order that multi-rail transports could bring.
func TestFramesOutOfOrder(t *testing.T) {
	ctx := testContext(t)
	a, b := pair(t, Config{}, WorkerConfig{})
	big := testBytes(8, 9001)
	first := encodeTable(t, Bytes([]byte("abc")), Bytes(big))
	second := encodeTable(t, Bytes([]byte("second")))
	to := a.lifeline.remote
	rawPart(t, ctx, a, wire.FrameHeader{Kind: wire.FrameTable, Number: to, Seq: 2, N: 1}, second)
	rawPart(t, ctx, a, wire.FrameHeader{Kind: wire.FrameData, Number: to, Seq: 1, N: 1}, big)
	rawPart(t, ctx, a, wire.FrameHeader{Kind: wire.FrameTable, Number: to, Seq: 1, N: 2}, first)
	got, err := b.RecvFrames(ctx, Allocators{})
	if err != nil {
		t.Fatal(err)
	}
	if err := sameFrames(got, [][]byte{[]byte("abc"), big}); err != nil {
		t.Error(err)
	}
	got, err = b.RecvFrames(ctx, Allocators{})
	if err != nil || string(got[0].Bytes()) != "second" {
		t.Errorf("%v, %v", got, err)
	}
}

// A receiver that takes nothing is not filled without bound.
func TestFramesQueueBound(t *testing.T) {
	ctx := testContext(t)
	a, b := pair(t, Config{}, WorkerConfig{MaxQueuedMessages: 1 << 20})
	var err error
	for i := 0; i < 10_000 && err == nil; i++ {
		err = a.SendFrames(ctx, Bytes(make([]byte, 4000)))
	}
	if err == nil {
		t.Fatal("40 MB were queued for nobody")
	}
	waitDone(t, ctx, a, b)
	if !errors.Is(b.Err(), ErrExceedsLimit) {
		t.Errorf("endpoint's error is %v", b.Err())
	}
	got := 0
	for {
		f, err := b.RecvFrames(ctx, Allocators{})
		if err != nil {
			break
		}
		f.Release()
		got++
	}
	if got == 0 || got > 1<<20/4000 {
		t.Errorf("%d messages had been queued", got)
	}
}
