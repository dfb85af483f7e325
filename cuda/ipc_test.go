package cuda_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"go.millstream.dev/cuda"
	"go.millstream.dev/mem"
)

// ipcJob is what the parent tells the child.
type ipcJob struct {
	Mem   cuda.MemHandle
	Event []byte
	Want  []byte // what the child must find
	Write []byte // what it writes then
}

// TestIPC shares memory of a pool and an event with a second process, which reads what is
// written behind the event and writes its own pattern. Guards around show stray writes.
func TestGPUIPC(t *testing.T) {
	requireGPU(t)
	if d := one(cuda.DeviceByOrdinal(0))(t); !d.IPC {
		t.Skip("no GPU: the device has no IPC")
	}
	const n = 1<<20 + 13
	p, err := mem.NewPool(cuda.NewDeviceResource(0), mem.PoolConfig{SlabBytes: 8 << 20})
	must(t, err)
	first := alloc(t, p, 1000) // so that the shared buffer is not at the start of its region
	whole, inner := guarded(t, p, n)
	s := newStream(t, 0)
	e := one(cuda.NewEvent(0, cuda.EventConfig{IPC: true}))(t)

	for range 3 {
		job := ipcJob{Want: pattern(n), Write: pattern(n)}
		load := alloc(t, cuda.NewDeviceResource(0), busyBytes)
		busy(t, s, load) // the write below is late
		one(s.Copy(inner, mem.FromBytes(job.Want)))(t)
		must(t, e.Record(s))
		job.Mem = one(cuda.ExportMem(inner))(t)
		h := one(e.Export())(t)
		job.Event = h[:]
		in, err := json.Marshal(job)
		must(t, err)
		if out := runChild(t, "ipc", in); !strings.Contains(out, "exchanged") {
			t.Fatal(out)
		}
		checkGuarded(t, whole, job.Write)
		load.Release()
	}
	h := one(cuda.ExportMem(inner))(t)
	_, err = cuda.OpenMem(-1, h)
	wantError(t, err, nil, "open exported memory")
	must(t, e.Close())
	for _, b := range []*mem.Buffer{first, whole, inner} {
		b.Release()
	}
	must(t, p.Close())
}

func childIPC() error {
	var job ipcJob
	if err := json.NewDecoder(os.Stdin).Decode(&job); err != nil {
		return err
	}
	e, err := cuda.OpenEvent(0, cuda.EventHandle(job.Event))
	if err != nil {
		return err
	}
	if err := e.Wait(ctxBackground); err != nil {
		return err
	}
	b, err := cuda.OpenMem(-1, job.Mem)
	if err != nil {
		return err
	}
	if b.Len() != len(job.Want) || b.Kind() != mem.Device || b.Device() != 0 {
		return fmt.Errorf("opened %v", b)
	}
	got := make([]byte, b.Len())
	if err := cuda.CopyToHost(ctxBackground, got, b); err != nil {
		return err
	}
	if !bytes.Equal(got, job.Want) {
		return errors.New("the child reads something else than the parent wrote")
	}
	if err := cuda.CopyFromHost(ctxBackground, b, job.Write); err != nil {
		return err
	}
	again, err := cuda.OpenMem(0, job.Mem) // a second mapping of the same memory
	if err != nil {
		return fmt.Errorf("second open: %w", err)
	}
	again.Release()
	b.Release()
	if n, _ := mem.Live(); n != 0 {
		return fmt.Errorf("%d regions left", n)
	}
	return hostile(job.Mem)
}

// hostile opens damaged handles: each must give an error.
func hostile(good cuda.MemHandle) error {
	raw, err := good.MarshalBinary()
	if err != nil {
		return err
	}
	for name, change := range map[string]func(b []byte){
		"length beyond the allocation": func(b []byte) { b[38]++ },
		"offset beyond the allocation": func(b []byte) { b[30]++ },
		"another device":               func(b []byte) { b[8] ^= 0xff },
		"no handle":                    func(b []byte) { clear(b[40:]) },
	} {
		b := bytes.Clone(raw)
		change(b)
		var h cuda.MemHandle
		if err := h.UnmarshalBinary(b); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if m, err := cuda.OpenMem(-1, h); err == nil {
			m.Release()
			return fmt.Errorf("%s: opened", name)
		}
	}
	fmt.Println("exchanged")
	return nil
}
