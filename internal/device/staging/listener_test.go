package staging

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"testing"
	"time"
)

func openDoor(t *testing.T) (*Listener, string) {
	t.Helper()
	d, err := Listen(t.Context(), "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d, fmt.Sprintf("127.0.0.1:%d", d.Port())
}

func patient(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func TestDoor(t *testing.T) {
	d, address := openDoor(t)
	ctx := patient(t)
	a, b := d.Offer(), d.Offer() // two comms at once
	for _, o := range []*Offer{a, b} {
		mine, err := Join(ctx, address, o.Token(), 5)
		if err != nil {
			t.Fatal(err)
		}
		theirs, err := o.Take(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for i := range mine { // each is its counterpart
			if _, err := mine[i].Write([]byte{byte(i)}); err != nil {
				t.Fatal(err)
			}
			var got [1]byte
			if _, err := io.ReadFull(theirs[i], got[:]); err != nil || got[0] != byte(i) {
				t.Errorf("line %d is line %d, %v", i, got[0], err)
			}
		}
		closeAll(mine)
		closeAll(theirs)
	}
	if len(d.offers) != 0 {
		t.Errorf("%d offers are left", len(d.offers))
	}
}

// ended waits for the end of a connection that is not wanted, or not any more.
func ended(t *testing.T, c net.Conn) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(time.Minute))
	b, err := io.ReadAll(c)
	if err, ok := err.(net.Error); ok && err.Timeout() || len(b) > 1 {
		t.Errorf("it goes on: %q, %v", b, err)
	}
	_ = c.Close()
}

func TestStrangersAtTheDoor(t *testing.T) {
	d, address := openDoor(t)
	o := d.Offer()
	join := func(token []byte, number, total byte) []byte {
		return append(append([]byte(magic), token...), number, total)
	}
	for _, words := range [][]byte{
		[]byte("GET / HTTP/1.1\r\nHost: somebody\r\n\r\n"),
		join(make([]byte, tokenSize), 0, 2),
		join(o.Token(), 2, 2),
		join(o.Token(), 0, MaxStripes+1),
	} {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = c.Write(words)
		ended(t, c)
	}
	first, err := joinOne(patient(t), address, o.Token(), 0, 2)
	if err != nil {
		t.Fatal(err)
	}
	for _, words := range [][]byte{join(o.Token(), 0, 2), join(o.Token(), 1, 3)} { // taken, and of another number
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = c.Write(words)
		ended(t, c)
	}
	o.Withdraw()
	ended(t, first)
	late, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = late.Write(join(o.Token(), 0, 2))
	ended(t, late)
}

// TestDoorCloses while somebody says nothing, an offer waits for its second line, and another one is still to come.
func TestDoorCloses(t *testing.T) {
	d, address := openDoor(t)
	silent, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	o := d.Offer()
	one, err := joinOne(patient(t), address, o.Token(), 0, 2)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	taken := make(chan error, 1)
	go func() { _, err := o.Take(ctx); taken <- err }()
	_ = d.Close()
	_ = d.Close()
	ended(t, silent)
	ended(t, one)
	cancel()
	if err := <-taken; err == nil {
		t.Error("lines were taken that never came")
	}
	if _, err := Join(t.Context(), address, d.Offer().Token(), 1); err == nil {
		t.Error("a closed door let a line in")
	}
	if _, err := Join(t.Context(), address, []byte("short"), 1); err == nil {
		t.Error("a token that is none")
	}
	full, canceled := context.WithCancel(t.Context())
	canceled()
	if _, err := Join(full, address, o.Token(), 1); err == nil {
		t.Error("a line for a context that has ended")
	}
}

func FuzzJoin(f *testing.F) {
	f.Add([]byte(magic + "0123456789abcdef\x00\x02"))
	f.Add([]byte("GET / HTTP/1.1"))
	f.Fuzz(func(t *testing.T, b []byte) {
		token, number, total, err := parseJoin(b)
		if err == nil && (number >= total || total > MaxStripes ||
			!bytes.Equal(b, append(append([]byte(magic), token[:]...), byte(number), byte(total)))) {
			t.Errorf("%q is line %d of %d", b, number, total)
		}
	})
}
