package store_test

import (
	"context"
	"fmt"
	"os"

	"go.millstream.dev/internal/engine/worker/store"
	"go.millstream.dev/internal/task"
)

// A megabyte of results is moved through a store that keeps a quarter of it in memory.
func Example() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	s, err := store.New(store.Config{Target: 256 << 10, Dir: dir, Compression: "lz4"})
	if err != nil {
		panic(err)
	}
	defer s.Close()

	const size = 64 << 10
	for i := range 16 {
		if err := s.MakeRoom(context.Background(), size); err != nil {
			panic(err)
		}
		s.Put(task.NewKey(fmt.Sprint("x-", i)), task.NewValue(make([]byte, size)), size)
	}
	e := s.Hold(task.NewKey("x-0")) // on disk
	v, err := e.Open()
	if err != nil {
		panic(err)
	}
	b, err := task.As[[]byte](v)
	fmt.Println(len(b), err)
	s.Release(e)
	fmt.Println(s.Len(), "results,", s.Memory() <= 256<<10)
	// Output:
	// 65536 <nil>
	// 16 results, true
}
