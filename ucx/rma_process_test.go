package ucx

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"strconv"
	"syscall"
	"testing"
	"time"

	"go.millstream.dev/mem"
)

const (
	stopSignal     = syscall.SIGSTOP
	continueSignal = syscall.SIGCONT
)

func init() { roles["rma-owner"] = rmaOwner }

// rmaOwner registers memory, tells where, and obeys: "fill seed" and "sum" work on the
// memory, "sleep ms" waits.
func rmaOwner(c *control) error {
	words := c.next() // transports, bytes, alloc|mmap
	n, err := strconv.Atoi(words[1])
	if err != nil {
		return err
	}
	ctx, err := NewContext(Config{Options: map[string]string{"TLS": words[0]}})
	if err != nil {
		return err
	}
	w, err := ctx.NewWorker(WorkerConfig{})
	if err != nil {
		return err
	}
	from := mem.NewMmap(mem.MmapConfig{})
	if words[2] == "alloc" {
		from = ctx.Resource(mem.Host, 0)
	}
	buf, err := from.Alloc(context.Background(), n)
	if err != nil {
		return err
	}
	m, err := ctx.Register(Buffer(buf))
	if err != nil {
		return err
	}
	addr, err := w.Address()
	if err != nil {
		return err
	}
	key, err := m.Key().MarshalBinary()
	if err != nil {
		return err
	}
	c.say("at %s %s", addr, base64.RawStdEncoding.EncodeToString(key))
	for words := c.next(); words != nil; words = c.next() {
		switch words[0] {
		case "bytes":
			c.say("bytes %s", base64.RawStdEncoding.EncodeToString(buf.Bytes()))
		case "sleep":
			ms, _ := strconv.Atoi(words[1])
			time.Sleep(time.Duration(ms) * time.Millisecond)
		}
	}
	m.Release()
	buf.Release()
	if err := w.Close(); err != nil {
		return err
	}
	return ctx.Close()
}

// farProcess starts an owner of UCX's own memory and connects to it by its worker address.
func farProcess(t *testing.T, tls string, n int, handleErrors bool) (*helper, *Endpoint, *RemoteKey) {
	t.Helper()
	return farProcessWith(t, tls, n, handleErrors, "alloc")
}

func farProcessWith(t *testing.T, tls string, n int, handleErrors bool, from string) (*helper, *Endpoint, *RemoteKey) {
	t.Helper()
	h := startHelper(t, "rma-owner")
	words := h.ask("at", "%s %d %s", tls, n, from)
	var addr WorkerAddress
	if err := addr.UnmarshalText([]byte(words[0])); err != nil {
		t.Fatal(err)
	}
	b, err := base64.RawStdEncoding.DecodeString(words[1])
	if err != nil {
		t.Fatal(err)
	}
	var key MemoryKey
	if err := key.UnmarshalBinary(b); err != nil {
		t.Fatal(err)
	}
	w := newWorker(t, Config{Options: map[string]string{"TLS": tls}}, WorkerConfig{})
	ep, err := w.Connect(addr, &EndpointConfig{NoErrorHandling: !handleErrors})
	if err != nil {
		t.Fatal(err)
	}
	rk, err := ep.Unpack(key)
	if err != nil {
		t.Fatal(err)
	}
	return h, ep, rk
}

// TestRMABetweenProcesses moves memory of another process, whose program takes no part.
func TestRMABetweenProcesses(t *testing.T) {
	for _, s := range rmaSettings[1:] {
		for i, from := range []string{"alloc", "mmap", "alloc", "mmap"} {
			handleErrors := i < 2
			t.Run(fmt.Sprintf("%s/%s/errors %v", s.name, from, handleErrors), func(t *testing.T) {
				ctx := testContext(t)
				const n = 300_001
				h, ep, rk := farProcessWith(t, s.tls, n, handleErrors, from)
				src := make([]byte, n)
				fill(src)
				if err := ep.Put(ctx, Bytes(src), rk, 0); err != nil {
					t.Fatal(err)
				}
				if err := ep.Flush(ctx); err != nil {
					t.Fatal(err)
				}
				words := h.ask("bytes", "bytes")
				if got, err := base64.RawStdEncoding.DecodeString(words[0]); err != nil || !bytes.Equal(got, src) {
					t.Fatalf("the owner sees other bytes (%v)", err)
				}
				got := make([]byte, n)
				if err := ep.Get(ctx, Bytes(got), rk, 0); err != nil || !bytes.Equal(got, src) {
					t.Fatalf("get: %v", err)
				}
				if !handleErrors {
					word := AtomicAt[uint64](rk, 8)
					old, err := word.FetchAdd(ctx, 5)
					if err != nil {
						t.Fatal(err)
					}
					if now, err := word.Load(ctx); err != nil || now != old+5 {
						t.Fatalf("load: %d after adding 5 to %d, %v", now, old, err)
					}
				}
				if err := ep.Close(); err != nil {
					t.Error(err)
				}
				h.quit()
			})
		}
	}
}

// TestRMAOwnerKilled: operations on the memory of a process that dies end with an error.
func TestRMAOwnerKilled(t *testing.T) {
	h, ep, rk := farProcess(t, "tcp,self", 1<<20, true)
	b := make([]byte, 1<<20)
	if err := ep.Get(testContext(t), Bytes(b), rk, 0); err != nil {
		t.Fatal(err)
	}
	h.signal(stopSignal)
	requests := []*Request{ep.StartGet(Bytes(b[:1<<19]), rk, 0), ep.StartGet(Bytes(b[1<<19:]), rk, 0)}
	h.kill()
	for _, r := range requests {
		if err := r.Wait(testContext(t)); err == nil {
			t.Error("an operation on a dead process's memory has succeeded")
		}
	}
	<-ep.Done()
	if err := ep.Put(testContext(t), Bytes(b), rk, 0); err == nil {
		t.Error("the endpoint of a dead process takes operations")
	}
}
