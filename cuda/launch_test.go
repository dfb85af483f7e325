package cuda

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"testing"

	"go.millstream.dev/internal/device/cudrv"
	"go.millstream.dev/mem"
)

// How a launch is described to the driver, which needs no driver.

// pendingEvent is an event that is not done.
type pendingEvent struct{ handle uintptr }

func (e pendingEvent) Handle() uintptr            { return e.handle }
func (e pendingEvent) Query() (bool, error)       { return false, nil }
func (e pendingEvent) Wait(context.Context) error { return errors.New("nobody waits here") }

func fakeBuffer(addr uintptr, ready mem.Event) *mem.Buffer {
	b := mem.NewRegion(mem.RegionConfig{Addr: addr, Len: 64, Kind: mem.Device}).Buffer()
	b.SetReady(ready)
	return b
}

func TestLaunchParameters(t *testing.T) {
	s := &Stream{}
	f := &Function{module: &Module{}, handle: 42, name: "f", info: cudrv.FunctionInfo{MaxThreads: 256}}
	a, b := fakeBuffer(0x1000, pendingEvent{7}), fakeBuffer(0x2000, nil)
	hidden := fakeBuffer(0x3000, pendingEvent{9})
	own := &Event{handle: 11}
	own.stream.Store(s) // the stream's own order is enough
	c := fakeBuffer(0x4000, own)
	l := new(launcher)
	bufs, err := l.fill(s, f, LaunchConfig{Grid: Dim{X: 3}, Block: Dim{X: 8, Y: 4}, SharedBytes: 100},
		[]Arg{In(a), AlsoIn(hidden), Val(int8(-1)), Out(b), Struct([]byte("twelve bytes")), Val(float32(1.5)),
			Val(true), AlsoOut(c)})
	if err != nil {
		t.Fatal(err)
	}
	if len(bufs) != 4 || bufs[0] != a || bufs[1] != hidden || bufs[2] != b || bufs[3] != c {
		t.Errorf("%v", bufs)
	}
	if l.l.Grid != [3]uint32{3, 1, 1} || l.l.Block != [3]uint32{8, 4, 1} || l.l.Shared != 100 || l.l.Function != 42 {
		t.Errorf("%+v", l.l)
	}
	if l.l.Waits != 2 || l.waits[0] != 7 || l.waits[1] != 9 {
		t.Errorf("waits %v", l.waits)
	}
	want := []uint16{0, 8, 16, 24, 40, 48}
	if int(l.l.Parameters) != len(want) {
		t.Fatalf("%d parameters", l.l.Parameters)
	}
	for i, at := range want {
		if l.l.At[i] != at {
			t.Errorf("parameter %d at %d, want %d", i, l.l.At[i], at)
		}
	}
	v := l.values[:]
	if binary.NativeEndian.Uint64(v) != 0x1000 || int8(v[8]) != -1 || binary.NativeEndian.Uint64(v[16:]) != 0x2000 ||
		string(v[24:36]) != "twelve bytes" ||
		math.Float32frombits(binary.NativeEndian.Uint32(v[40:])) != 1.5 || v[48] != 1 {
		t.Errorf("%v", v[:56])
	}
}

func TestLaunchRefuses(t *testing.T) {
	f := &Function{module: &Module{}, name: "f", info: cudrv.FunctionInfo{MaxThreads: 256}}
	ro := mem.NewRegion(mem.RegionConfig{Addr: 4096, Len: 8, Kind: mem.Device, ReadOnly: true}).Buffer()
	many := make([]Arg, cudrv.MaxParameters+1)
	for i := range many {
		many[i] = Val(int32(i))
	}
	for text, c := range map[string]struct {
		cfg  LaunchConfig
		args []Arg
	}{
		"grid {-1 0 0}":          {cfg: LaunchConfig{Grid: Dim{X: -1}}},
		"shared memory":          {cfg: LaunchConfig{SharedBytes: -1}},
		"257 threads in a block": {cfg: LaunchConfig{Block: Dim{X: 257}}},
		"at most 64 parameters":  {args: many},
		"argument 0":             {args: []Arg{Struct(make([]byte, maxParameterBytes+1))}},
		"argument 1":             {args: []Arg{Val(int32(1)), Struct(nil)}},
		"into read-only memory":  {args: []Arg{Out(ro)}},
		"event cuda.handleless":  {args: []Arg{In(fakeBuffer(8192, handleless{}))}},
		"kernel on device ":      {cfg: LaunchConfig{Grid: Dim{X: 77}}},
	} {
		var err error
		if c.cfg.Grid.X == 77 {
			_, err = (&Stream{device: 1}).Launch(f, c.cfg)
		} else {
			_, err = new(launcher).fill(&Stream{}, f, c.cfg, c.args)
		}
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%v does not say %q", err, text)
		}
	}
}

// handleless is an event of another library, which no stream can wait for.
type handleless struct{ pendingEvent }

// A launcher that is used again has nothing of the launch before.
func TestLauncherIsUsedAgain(t *testing.T) {
	f := &Function{module: &Module{}, name: "f"}
	l := new(launcher)
	if _, err := l.fill(&Stream{}, f, LaunchConfig{}, []Arg{In(fakeBuffer(4096, pendingEvent{7})),
		Val(int64(-1))}); err != nil {
		t.Fatal(err)
	}
	l.put()
	if len(l.waits) != 0 || len(l.events) != 0 {
		t.Errorf("%v %v", l.waits, l.events)
	}
	if _, err := l.fill(&Stream{}, f, LaunchConfig{}, []Arg{Val(uint8(5))}); err != nil || l.l.Waits != 0 ||
		l.l.Parameters != 1 || l.values[0] != 5 {
		t.Errorf("%v: %+v", err, l.l)
	}
}
