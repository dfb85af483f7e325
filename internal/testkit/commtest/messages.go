package commtest

import (
	"fmt"
	"strings"
	"sync"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/comm/commaddr"
	"go.millstream.dev/internal/comm/handshake"
	"go.millstream.dev/wire"
)

func pingPong(r *rig) {
	a, b := r.pair()
	for i := range 200 {
		r.write(a, message(i, i))
		r.read(b, i, i)
		r.write(b, message(i+1, i, 3))
		r.read(a, i+1, i, 3)
	}
}

// manyFrames sends messages of many shapes without waiting in between.
func manyFrames(r *rig) {
	a, b := r.pair()
	shapes := [][]int{
		{0}, {1}, {0, 0}, {0, 0, 0, 5}, {5, 0, 0, 0}, {8, 0, 100_000, 0, 0}, {100_000, 0}, {200_000, 300_000, 1},
		{4095}, {4096}, {4097}, {8191}, {8192}, {8193}, {16383}, {16384}, {65535}, {65536}, {65537},
		{1, 65536, 65536, 1},
	}
	many := make([]int, 5000)
	for i := range many {
		many[i] = i % 97
	}
	many[1000], many[4000] = 300_000, 70_000
	shapes = append(shapes, many, []int{7})
	done := async(func() error {
		for i, sizes := range shapes {
			if err := a.Write(r.ctx, message(i, sizes...)); err != nil {
				return err
			}
		}
		return nil
	})
	for i, sizes := range shapes {
		r.read(b, i, sizes...)
	}
	if err := <-done; err != nil {
		r.Fatal(err)
	}
}

func large(r *rig) {
	a, b := r.pair()
	sizes := []int{20, r.Factory.Large, 0, r.Factory.Large / 8, 3}
	m := message(9, sizes...)
	for range 2 { // buffers differ in the second round
		done := async(func() error { return a.Write(r.ctx, m) })
		r.read(b, 9, sizes...)
		if err := <-done; err != nil {
			r.Fatal(err)
		}
	}
	r.alive(a, b)
}

// stream writes numbered messages, expect reads them.
func stream(r *rig, c comm.Comm, n int) error {
	for i := range n {
		if err := c.Write(r.ctx, message(i, 8, (i*i*37)%50_000)); err != nil {
			return fmt.Errorf("write %d: %w", i, err)
		}
	}
	return nil
}

func expect(r *rig, c comm.Comm, n int) error {
	for i := range n {
		m, err := c.Read(r.ctx)
		if err != nil {
			return fmt.Errorf("read %d: %w", i, err)
		}
		if err := check(m, i, 8, (i*i*37)%50_000); err != nil {
			return fmt.Errorf("message %d: %w", i, err)
		}
		m.Release()
	}
	return nil
}

// bothWays streams in both directions concurrently and checks that nothing is lost and order is kept.
func bothWays(r *rig) {
	a, b := r.pair()
	const n = 400
	done := []<-chan error{
		async(func() error { return stream(r, a, n) }), async(func() error { return stream(r, b, n) }),
		async(func() error { return expect(r, a, n) }), async(func() error { return expect(r, b, n) }),
	}
	for _, d := range done {
		if err := <-d; err != nil {
			r.Error(err)
		}
	}
}

// turns checks that messages of several goroutines in one direction stay whole.
func turns(r *rig) {
	a, b := r.pair()
	const writers, each = 8, 50
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			for range each {
				if err := a.Write(r.ctx, message(w, 1, 1000*w)); err != nil {
					r.Error(err)
					return
				}
			}
		})
	}
	var mu sync.Mutex
	seen := make(map[int]int)
	for range 4 {
		group.Go(func() {
			for range writers * each / 4 {
				m, err := b.Read(r.ctx)
				if err != nil {
					r.Error(err)
					return
				}
				w := int(m.Body()[0])
				if err := check(m, w, 1, 1000*w); err != nil {
					r.Error(err)
				}
				m.Release()
				mu.Lock()
				seen[w]++
				mu.Unlock()
			}
		})
	}
	group.Wait()
	for w := range writers {
		if seen[w] != each {
			r.Errorf("got %d messages of writer %d, want %d", seen[w], w, each)
		}
	}
}

// ownership checks that messages do not change while more are read and after the end of the comm, and that a message
// can be written many times.
func ownership(r *rig) {
	a, b := r.pair()
	sizes := []int{100, 10_000, 200_000}
	m := message(5, sizes...)
	done := async(func() error {
		for range 10 {
			if err := a.Write(r.ctx, m); err != nil {
				return err
			}
		}
		return a.Close()
	})
	var got []*wire.Message
	for range 10 {
		g, err := b.Read(r.ctx)
		if err != nil {
			r.Fatal(err)
		}
		got = append(got, g)
	}
	if err := <-done; err != nil {
		r.Error(err)
	}
	r.endedRead(b)
	b.Close()
	for i, g := range append(got, m) {
		if err := check(g, 5, sizes...); err != nil {
			r.Errorf("message %d: %v", i, err)
		}
		g.Release()
	}
}

func addresses(r *rig) {
	l := r.listen()
	a, b := r.connect(l)
	if a.LocalAddr() != b.PeerAddr() || a.PeerAddr() != b.LocalAddr() {
		r.Errorf("addresses of the ends differ: %s -> %s and %s -> %s", a.LocalAddr(), a.PeerAddr(), b.LocalAddr(),
			b.PeerAddr())
	}
	if a.PeerAddr() != l.ContactAddr() {
		r.Errorf("dialed %s, connected to %s", l.ContactAddr(), a.PeerAddr())
	}
	scheme, _ := commaddr.Parse(r.Factory.Address)
	for _, address := range []string{a.LocalAddr(), a.PeerAddr(), l.ListenAddr(), l.ContactAddr()} {
		if !strings.HasPrefix(address, scheme+"://") {
			r.Errorf("address %s does not start with %s://", address, scheme)
		}
	}
	if a.LocalAddr() == a.PeerAddr() {
		r.Errorf("both ends have address %s", a.LocalAddr())
	}
}

func info(r *rig) {
	a, b := r.pair()
	for _, i := range []comm.Info{a.Info(), b.Info()} {
		if i.Millstream == nil || i.Millstream.Version != handshake.Version || i.PickleProtocol != 5 ||
			len(i.Python) != 0 {
			r.Errorf("unexpected result of the handshake: %+v", i)
		}
	}
	if a.Info().Compression != b.Info().Compression {
		r.Errorf("compression differs: %q and %q", a.Info().Compression, b.Info().Compression)
	}
}

func noFrames(r *rig) {
	a, b := r.pair()
	if err := a.Write(r.ctx, new(wire.Message)); err == nil {
		r.Error("write of a message without a body succeeded")
	}
	r.alive(a, b)
}
