package member

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"
	"unsafe"

	"go.millstream.dev/clique"
	"go.millstream.dev/cuda"
	"go.millstream.dev/internal/testkit/leak"
)

func TestMain(m *testing.M) {
	if cuda.Available() != nil {
		os.Exit(leak.Main(m))
	}
	// The driver keeps descriptors for the life of the process: goroutines alone.
	os.Exit(leak.Main(m, leak.IgnoreFD("")))
}

// patience is how long a test waits for something that must come.
const patience = 5 * time.Minute

func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

func config(id, name string) Config {
	return Config{ID: id, Name: name, Backend: clique.Comm, Timeout: patience}
}

// open opens n members named a0, a1, ….
func open(t *testing.T, id string, n int) (members []*Member, contacts []string) {
	t.Helper()
	for i := range n {
		m, text, err := Open(testContext(t), config(id, fmt.Sprintf("a%d", i)))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := m.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		})
		members, contacts = append(members, m), append(contacts, text)
	}
	return members, contacts
}

// each calls f for all members at once and reports their errors.
func each(t *testing.T, members []*Member, f func(i int, m *Member) error) {
	t.Helper()
	var all sync.WaitGroup
	for i, m := range members {
		all.Go(func() {
			if err := f(i, m); err != nil {
				t.Errorf("member %d: %v", i, err)
			}
		})
	}
	all.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// formed returns members that have joined.
func formed(t *testing.T, n int) []*Member {
	t.Helper()
	members, contacts := open(t, "formed", n)
	ticket, err := Ticket(contacts)
	if err != nil {
		t.Fatal(err)
	}
	ctx := testContext(t)
	each(t, members, func(_ int, m *Member) error { return m.Join(ctx, ticket) })
	return members
}

// addressed are the slices whose addresses at has returned: an address keeps no memory alive, and memory of a stack has
// none that lasts.
var addressed sync.Map

// at returns the address of the first element, which is valid until the process ends.
func at[T any](s []T) uintptr {
	p := unsafe.SliceData(s)
	addressed.Store(p, struct{}{})
	return uintptr(unsafe.Pointer(p))
}
