//go:build cgo

package ucxcomm

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"net"
	"testing"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/comm/commaddr"
	"go.millstream.dev/internal/device/staging"
	"go.millstream.dev/internal/device/staging/stagetest"
	"go.millstream.dev/mem"
	"go.millstream.dev/ucx"
	"go.millstream.dev/wire"
)

func stagedPair(t *testing.T, dial comm.DialConfig, listen comm.ListenConfig) (a, z *conn) {
	t.Helper()
	b, ctx := backends["data, tcp"], testContext(t)
	l, err := b.Listen(ctx, "127.0.0.1:0", listen)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, loc := commaddr.Parse(l.ContactAddr())
	dialed, err := b.Dial(ctx, loc, dial)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dialed.Close() })
	accepted, err := l.Accept(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { accepted.Close() })
	return dialed.(*conn), accepted.(*conn)
}

func carried(t *testing.T, from, to comm.Comm, m *wire.Message) *wire.Message {
	t.Helper()
	ctx := testContext(t)
	sent := make(chan error, 1)
	go func() { sent <- from.Write(ctx, m) }()
	got, err := to.Read(ctx)
	if err := errors.Join(err, <-sent); err != nil {
		t.Fatal(err)
	}
	return got
}

// TestStaged: without a transport for GPUs device frames are sent over stripes, in both directions and among others.
// UCX, which does not support such devices, never sees them.
func TestStaged(t *testing.T) {
	da, dz := stagetest.Install(t), stagetest.Install(t)
	a, z := stagedPair(t, comm.DialConfig{Device: da.Memory(), Staged: comm.StagedConfig{Stripes: 3}},
		comm.ListenConfig{Device: dz.Memory()})
	if a.data.stripes == nil || z.data.stripes == nil || len(z.data.stripes.conns) != 3 || !a.Info().CUDA {
		t.Fatalf("lines: %v and %v", a.data.stripes, z.data.stripes)
	}
	for _, n := range []int{0, 1, 9000, staging.Unit, 5*staging.Unit + 3} {
		data, host := stagetest.Random(n), stagetest.Random(n/2+1)
		m := &wire.Message{Frames: []wire.Frame{
			wire.HeapFrame([]byte("body")), da.Frame(t, data), wire.HeapFrame(host), wire.HeapFrame(nil), da.Frame(t,
				host), da.Frame(t, data),
		}}
		there := carried(t, a, z, m)
		m.Release()
		back := carried(t, z, a, there)
		there.Release()
		for i, want := range [][]byte{[]byte("body"), data, host, nil, host, data} {
			f := back.Frames[i]
			if f.OnDevice() != (i == 1 || i > 3) || !bytes.Equal(stagetest.Contents(t, f), want) {
				t.Errorf("%d bytes: frame %d came as another, on a device: %v", n, i, f.OnDevice())
			}
		}
		back.Release()
	}
	plain := carried(t, a, z, msg([]byte("body"), make([]byte, 100_000))) // others go as always
	plain.Release()
}

type fullDevice struct{ mem.Resource }

func (fullDevice) Alloc(context.Context, int) (*mem.Buffer, error) { return nil, mem.ErrOutOfMemory }

// TestStagedIntoFullDevice: what does not fit arrives in host memory, flagged.
func TestStagedIntoFullDevice(t *testing.T) {
	d := stagetest.Install(t)
	a, z := stagedPair(t, comm.DialConfig{Device: d.Memory()}, comm.ListenConfig{Device: fullDevice{d.Memory()}})
	data := stagetest.Random(6*staging.Unit + 1)
	m := &wire.Message{Frames: []wire.Frame{wire.HeapFrame([]byte("body")), d.Frame(t, data)}}
	got := carried(t, a, z, m)
	m.Release()
	if f := got.Frames[1]; f.OnDevice() || !f.CUDA() || !bytes.Equal(f.Bytes(), data) {
		t.Error("it came as another")
	}
	got.Release()
}

// TestNoLines: who has no GPU, or does not want it, gets none.
func TestNoLines(t *testing.T) {
	d := stagetest.Install(t)
	with, off := d.Memory(), comm.StagedConfig{Mode: comm.StagedOff}
	for _, tc := range []struct {
		about  string
		dial   comm.DialConfig
		listen comm.ListenConfig
	}{
		{"neither has a GPU", comm.DialConfig{}, comm.ListenConfig{}},
		{"the dialing side has none", comm.DialConfig{}, comm.ListenConfig{Device: with}},
		{"the listening side has none", comm.DialConfig{Device: with}, comm.ListenConfig{}},
		{"switched off", comm.DialConfig{Device: with, Staged: off}, comm.ListenConfig{Device: with}},
		{"switched off by the listening side", comm.DialConfig{Device: with},
			comm.ListenConfig{Device: with, Staged: off}},
	} {
		a, z := stagedPair(t, tc.dial, tc.listen)
		if a.data.stripes != nil || z.data.stripes != nil {
			t.Errorf("%s: there are lines", tc.about)
		}
		carried(t, a, z, msg([]byte("body"))).Release()
	}
}

// TestStagedEnds in the middle of a frame: both sides notice, and all memory comes back (stagetest looks).
func TestStagedEnds(t *testing.T) {
	for about, end := range map[string]func(z *conn, cancel func()){
		"the peer aborts":  func(z *conn, _ func()) { z.Abort() },
		"a line ends":      func(z *conn, _ func()) { z.data.stripes.conns[1].Close() },
		"the context ends": func(_ *conn, cancel func()) { cancel() },
	} {
		t.Run(about, func(t *testing.T) {
			da, dz := stagetest.Install(t), stagetest.Install(t)
			a, z := stagedPair(t, comm.DialConfig{Device: da.Memory(), Staged: comm.StagedConfig{Stripes: 2}},
				comm.ListenConfig{Device: dz.Memory()})
			ctx, cancel := context.WithCancel(testContext(t))
			defer cancel()
			m := &wire.Message{Frames: []wire.Frame{wire.HeapFrame([]byte("body")),
				da.Frame(t, stagetest.Random(32<<20))}}
			done := make(chan error, 1)
			go func() { done <- a.Write(ctx, m) }()
			var first [1]byte // the transfer is under way
			if _, err := z.data.stripes.conns[1].Read(first[:]); err != nil {
				t.Fatal(err)
			}
			end(z, cancel)
			select {
			case err := <-done:
				if err == nil {
					t.Error("it was sent to nobody")
				}
			case <-time.After(time.Minute):
				t.Fatal("the sender still waits")
			}
			m.Release()
			if a.Err() == nil {
				t.Error("the comm lives on in the middle of a message")
			}
		})
	}
}

// TestDoorThatNobodyReaches: where the port cannot be dialed the comm does without.
func TestDoorThatNobodyReaches(t *testing.T) {
	d := stagetest.Install(t)
	b, ctx := backends["data, tcp"], testContext(t)
	l, err := b.Listen(ctx, "127.0.0.1:0", comm.ListenConfig{Device: d.Memory()})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	setDoorHost(l.(*listener), "127.0.0.77") // listens, but not on the address that is sent
	_, loc := commaddr.Parse(l.ContactAddr())
	a, err := b.Dial(ctx, loc, comm.DialConfig{Device: d.Memory()})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	z, err := l.Accept(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	if a.(*conn).data.stripes != nil || z.(*conn).data.stripes != nil {
		t.Error("there are lines")
	}
	carried(t, a, z, msg([]byte("body"))).Release()
	l.(*listener).door.close()
	if _, err := l.(*listener).door.open(ctx); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a closed door: %v", err)
	}
}

func TestTransportsForDevices(t *testing.T) {
	for transport, want := range map[string]bool{"tcp": false, "posix": false, "cma": false, "cuda_copy": false,
		"self": false, "cuda_ipc": true, "rc_mlx5": true, "dc_mlx5": true, "ud_verbs": true} {
		if got := forDevices([]ucx.Transport{{Name: "sysv"}, {Name: transport}}); got != want {
			t.Errorf("%s: %v", transport, got)
		}
	}
}

func stagedTable(items ...uint64) (b []byte) {
	for i := 0; i < len(items); i += 2 {
		b = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint32(b, uint32(items[i])), items[i+1])
	}
	return b
}

func TestStagedTables(t *testing.T) {
	b := bounds{bytes: 1000, frames: 5}
	for _, tc := range []struct {
		about string
		table []byte
		host  int
		ok    bool
	}{
		{"one", stagedTable(1, 10), 1, true},
		{"between", stagedTable(0, 0, 2, 900), 1, true},
		{"none", nil, 1, false},
		{"cut", stagedTable(1, 10)[:11], 1, false},
		{"too many frames", stagedTable(1, 1, 2, 1), 4, false},
		{"behind the end", stagedTable(2, 10), 1, false},
		{"twice", stagedTable(1, 1, 1, 1), 2, false},
		{"backwards", stagedTable(2, 1, 1, 1), 2, false},
		{"too long", stagedTable(1, 991), 1, false},
		{"too long together", stagedTable(1, 500, 2, 491), 1, false},
		{"absurd", stagedTable(1, 1<<63), 1, false},
	} {
		if list, err := parseStaged(tc.table, tc.host, 10, b); (err == nil) != tc.ok {
			t.Errorf("%s: %v, %v", tc.about, list, err)
		}
	}
}

func FuzzStagedTable(f *testing.F) {
	f.Add(stagedTable(1, 10, 3, 7), 2)
	f.Fuzz(func(t *testing.T, table []byte, host int) {
		b := bounds{bytes: 1 << 40, frames: 100}
		host = min(max(host, 0), 100)
		list, err := parseStaged(table, host, 5, b)
		if err != nil {
			return
		}
		sum, last := int64(5), -1
		for _, s := range list {
			sum += s.size
			if s.index <= last || s.index >= host+len(list) || s.size < 0 {
				t.Fatalf("%v of %d", list, host)
			}
			last = s.index
		}
		if sum > b.bytes || host+len(list) > b.frames {
			t.Fatalf("%d bytes in %d frames", sum, host+len(list))
		}
	})
}
