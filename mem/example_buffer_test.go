package mem_test

import (
	"context"
	"fmt"

	"go.millstream.dev/mem"
)

// written is an event that is done when a program says so. Package cuda has the events of devices.
type written chan struct{}

func (w written) Handle() uintptr { return 0 }

func (w written) Query() (bool, error) {
	select {
	case <-w:
		return true, nil
	default:
		return false, nil
	}
}

func (w written) Wait(ctx context.Context) error {
	select {
	case <-w:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A buffer whose content is still being written has a ready event, which its readers wait for.
func ExampleBuffer_SetReady() {
	ctx := context.Background()
	b := mem.FromBytes(make([]byte, 5))
	w := make(written)
	b.SetReady(w)
	go func() {
		copy(b.Bytes(), "ready")
		close(w)
	}()
	if e := b.Ready(); e == nil {
		fmt.Println("no event")
	}
	if err := b.WaitReady(ctx); err != nil {
		fmt.Println(err)
	}
	fmt.Printf("%s\n", b.Bytes())
	// Output: ready
}

// References keep memory alive; the last one frees it.
func ExampleBuffer_Retain() {
	b := value(mem.NewMmap(mem.MmapConfig{}).Alloc(context.Background(), 4096))
	b.OnFree(func() { fmt.Println("freed") })
	other := b.Retain()
	fmt.Println(other.Addr() == b.Addr(), b.ReadOnly())
	fmt.Println("given back as one of several references:", b.ReleaseShared())
	other.Release()
	// Output:
	// true false
	// given back as one of several references: true
	// freed
}

// Values that hang on a region are found again, until they are detached or the region is freed.
func ExampleRegion_Detach() {
	b := value(mem.NewMmap(mem.MmapConfig{}).Alloc(context.Background(), 4096))
	defer b.Release()
	r := b.Region()
	type transport struct{ name string }
	t := &transport{"shm"}
	value(r.Attach(t, func() (any, error) { return "key", nil }))
	fmt.Println(r.Attached(t))
	r.Detach(t)
	fmt.Println(r.Attached(t))
	fmt.Println(r.GoHeap(), r.Addr() == b.Addr(), r.Len())
	// Output:
	// key true
	// <nil> false
	// false true 4096
}

// Memory that is not released shows in the count of regions.
func ExampleLive() {
	before, _ := mem.Live()
	b := value(mem.NewMmap(mem.MmapConfig{}).Alloc(context.Background(), 4096))
	now, _ := mem.Live()
	fmt.Println(now - before)
	b.Release()
	now, _ = mem.Live()
	fmt.Println(now - before)
	// Output:
	// 1
	// 0
}

func ExampleKind_HostAccessible() {
	for _, k := range []mem.Kind{mem.Host, mem.Pinned, mem.Device, mem.Managed} {
		fmt.Println(k, k.HostAccessible())
	}
	// Output:
	// host true
	// pinned true
	// device false
	// managed true
}
