package transfer

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/comm/peermem"
	"go.millstream.dev/internal/device/staging/stagetest"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/mem"
	"go.millstream.dev/wire"
)

// gpuNodes are two nodes on one device. The first one has its results in a pool and publishes them in a table.
type gpuNodes struct {
	a, b   *node
	device *stagetest.Device
	share  *stagetest.Sharing
	pool   *mem.Pool
	table  *peermem.Table
}

// startGPU starts two nodes. The owner and the reader may be without cuda_ipc.
func startGPU(t *testing.T, ownerWithout, readerWithout bool) *gpuNodes {
	t.Helper()
	allowSameProcess(t)
	g := &gpuNodes{device: stagetest.Install(t), table: &peermem.Table{}}
	g.share = g.device.Share(t)
	var err error
	if g.pool, err = mem.NewPool(g.device.Memory(), mem.PoolConfig{SlabBytes: 1 << 20}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		g.device.Drain()
		if err := g.table.Close(); err != nil {
			t.Error(err)
		}
		if err := g.pool.Close(); err != nil {
			t.Error(err)
		}
		if n := g.share.Mapped(); n != 0 { // Install checks the memory
			t.Errorf("%d regions are mapped, want none", n)
		}
	})
	dial := comm.DialConfig{Device: g.device.Memory()}
	g.a = start(t, Config{Listen: "tcp://:0", Table: g.table, Dial: dial, NoCUDAIPC: ownerWithout})
	g.b = start(t, Config{Listen: "tcp://:0", Dial: dial, NoCUDAIPC: readerWithout})
	return g
}

// put stores an array on the device of the first node and returns its key.
func (g *gpuNodes) put(t *testing.T, i int) (task.Key, *task.Value) {
	t.Helper()
	b, err := g.pool.Alloc(t.Context(), 1000+i)
	if err != nil {
		t.Fatal(err)
	}
	stagetest.Fill(b, filled(i))
	array, err := wire.NewDeviceArray[uint8](b)
	if err != nil {
		t.Fatal(err)
	}
	key, v := task.NewKey(fmt.Sprint("array-", i)), task.NewValue(array)
	g.a.data.Put(key, v, v.Size())
	return key, v
}

func filled(i int) []byte { return bytes.Repeat([]byte{byte(i + 1)}, 1000+i) }

// check compares a fetched array, and releases it.
func (g *gpuNodes) check(t *testing.T, f *Fetch, first int) {
	t.Helper()
	if f.Err != nil || !f.Device || len(f.Values) != len(f.Keys) {
		t.Fatalf("got %+v, want %d values on the device", f, len(f.Keys))
	}
	for i, v := range f.Values {
		array, err := task.As[*wire.DeviceArray](v)
		if err != nil {
			t.Fatal(err)
		}
		if got := stagetest.Bytes(array.Buffer()); !bytes.Equal(got, filled(first+i)) || f.Stored[i].Key != f.Keys[i] {
			t.Errorf("array %d: got %d bytes that differ, key %v", first+i, len(got), f.Stored[i].Key)
		}
		v.Release()
	}
}

// Results on the device are lent, and once the reader knows the table of the owner, copied without a request.
func TestDeviceResults(t *testing.T) {
	g := startGPU(t, false, false)
	k, v := g.put(t, 0)
	var published []*peermem.Publication
	publish := func(key task.Key, v *task.Value) {
		s, err := v.Retained()
		if err != nil {
			t.Fatal(err)
		}
		defer s.Release()
		p := g.table.Publish([]byte(key), s)
		if p == nil {
			t.Fatal("not published")
		}
		published = append(published, p)
	}
	publish(k, v)
	g.check(t, g.b.get(t, g.a.address, k), 0)
	waitFor(t, func() bool { return len(g.a.Records()) == 1 })
	var keys []task.Key
	for i := 1; i < 20; i++ {
		k, v := g.put(t, i)
		publish(k, v)
		keys = append(keys, k)
	}
	g.check(t, g.b.get(t, g.a.address, keys...), 1)
	if n := len(g.a.Records()); n != 1 {
		t.Errorf("the owner has served %d requests, want 1", n)
	}
	for i, r := range append(g.b.Records(), g.a.Records()...) {
		if !slices.Equal(r.Transports, []string{peermem.DeviceTransport}) || r.DeviceBytes < 1000 ||
			r.Scheme != "tcp" || r.Bytes < r.DeviceBytes || r.Error != "" {
			t.Errorf("record %d: got %+v, want a transfer of the device", i, r)
		}
	}
	for _, p := range published { // the results are requested again
		p.Withdraw()
	}
	g.check(t, g.b.get(t, g.a.address, keys...), 1)
	waitFor(t, func() bool { return len(g.a.Records()) == 2 })
	g.b.Forget(g.a.address)
	waitFor(t, func() bool { return g.share.Mapped() == 0 })
	for i := range 20 {
		g.a.data.Delete(task.NewKey(fmt.Sprint("array-", i)))
	}
}

// A worker without cuda_ipc maps no memory of the device, and no peer maps that of the worker.
func TestDeviceResultsWithoutIPC(t *testing.T) {
	for _, without := range [][2]bool{{true, false}, {false, true}, {true, true}} {
		t.Run(fmt.Sprint(without), func(t *testing.T) {
			g := startGPU(t, without[0], without[1])
			var keys []task.Key
			for i := range 3 {
				k, _ := g.put(t, i)
				keys = append(keys, k)
			}
			f := g.b.get(t, g.a.address, keys...)
			g.device.Drain() // what was received is copied to the device
			g.check(t, f, 0)
			for i, r := range g.b.Records() {
				if slices.Contains(r.Transports, peermem.DeviceTransport) || r.Error != "" {
					t.Errorf("record %d: got %+v, want a transfer without %s", i, r, peermem.DeviceTransport)
				}
			}
			if n := g.share.Mapped(); n != 0 {
				t.Errorf("%d regions are mapped, want none", n)
			}
			waitFor(t, func() bool { return len(g.a.Records()) == 1 })
			for _, k := range keys {
				g.a.data.Delete(k)
			}
		})
	}
}
