package store

import (
	"context"
	"testing"

	"go.millstream.dev/internal/task"
)

// BenchmarkHot measures a result that is never spilled: put, used once, deleted.
func BenchmarkHot(b *testing.B) {
	s, err := New(Config{Target: 1 << 30})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	k, v := key(1), task.NewValue(1)
	b.ReportAllocs()
	for range b.N {
		s.Put(k, v, 28)
		s.Release(s.Hold(k))
		s.Delete(k)
	}
}

// BenchmarkThrough moves values of 8 MiB through a store that keeps eight of them, and reads each one back.
func BenchmarkThrough(b *testing.B) {
	const size = 8 << 20
	for name, data := range map[string][]byte{"random": random(size), "repeated": repeated(size)} {
		for _, compression := range []string{"false", "lz4", "zstd"} {
			b.Run(name+"/"+compression, func(b *testing.B) {
				s, err := New(Config{Target: 8 * size, Compression: compression, Dir: b.TempDir(), Logger: quiet()})
				if err != nil {
					b.Fatal(err)
				}
				defer s.Close()
				b.SetBytes(size)
				for i := range b.N {
					if err := s.MakeRoom(context.Background(), size); err != nil {
						b.Fatal(err)
					}
					s.Put(key(i), task.NewValue(data), size)
				}
				for i := range b.N {
					e := s.Hold(key(i))
					if _, err := e.Open(); err != nil {
						b.Fatal(err)
					}
					s.Delete(key(i))
					s.Release(e)
				}
			})
		}
	}
}
