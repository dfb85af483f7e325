package task

import (
	"errors"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"

	"go.millstream.dev/wire"
)

// far is a value in another process.
type far struct {
	s       *wire.Serialized
	err     error
	fetched atomic.Int64
	dropped atomic.Int64
}

func (f *far) Fetch() (*wire.Serialized, error) {
	f.fetched.Add(1)
	if f.err != nil {
		return nil, f.err
	}
	return f.s.Retain(), nil
}

func (f *far) Drop() { f.dropped.Add(1) }

func farValue(t *testing.T) *far {
	t.Helper()
	s, err := EncodeValue([]float64{1, 2})
	if err != nil {
		t.Fatal(err)
	}
	return &far{s: s}
}

func TestRemoteValueIsBroughtOnce(t *testing.T) {
	f := farValue(t)
	v := NewRemote(f, 16, "list")
	if v.Size() != 16 || v.Type() != "list" {
		t.Error(v.Size(), v.Type())
	}
	if _, ok := v.AppendBody(nil); ok {
		t.Error("AppendBody of a remote value: got true, want false")
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if _, err := v.Encoded(); err != nil {
				t.Error(err)
			}
			if x, err := As[[]float64](v); err != nil || len(x) != 2 {
				t.Error(x, err)
			}
		})
	}
	wg.Wait()
	if n := f.fetched.Load(); n != 1 {
		t.Errorf("fetched %d times", n)
	}
	v.Release()
	v.Release()
	if n := f.dropped.Load(); n != 1 {
		t.Errorf("dropped %d times", n)
	}
}

func TestRemoteFramesCanBeDropped(t *testing.T) {
	f := farValue(t)
	v := NewRemote(f, 16, "list")
	for range 2 {
		if _, err := v.Encoded(); err != nil {
			t.Fatal(err)
		}
		v.DropEncoded()
	}
	if n := f.fetched.Load(); n != 2 {
		t.Errorf("fetched %d times", n)
	}
}

func TestRemoteThatFails(t *testing.T) {
	why := errors.New("no")
	v := NewRemote(&far{err: why}, 1, "lock")
	for range 2 {
		if _, err := v.Encoded(); !errors.Is(err, why) {
			t.Error(err)
		}
		if _, err := As[int](v); !errors.Is(err, why) {
			t.Error(err)
		}
	}
}

func TestRemoteIsLost(t *testing.T) {
	f := farValue(t)
	v := NewRemote(f, 16, "list")
	if v.Lose(f) {
		t.Error("Lose of the only copy: got true, want false")
	}
	if _, err := v.Encoded(); !errors.Is(err, errGone) {
		t.Error(err)
	}
	if _, err := As[int](v); !errors.Is(err, errGone) {
		t.Error(err)
	}
	var dst int
	if err := v.into(reflect.ValueOf(&dst).Elem()); !errors.Is(err, errGone) {
		t.Error(err)
	}
	here := NewEncoded(f.s.Retain())
	if here.Attach(f) != nil || here.Attach(farValue(t)) != Remote(f) || here.Remote() != Remote(f) {
		t.Error("Attach did not keep the first copy")
	}
	if !here.Lose(f) {
		t.Error("Lose of a copy of a value with frames: got false, want true")
	}
	if _, err := here.Encoded(); err != nil {
		t.Error(err)
	}
}
