package cuda_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"go.millstream.dev/cuda"
	"go.millstream.dev/mem"
)

func ExampleAvailable() {
	if err := cuda.Available(); err != nil {
		fmt.Println("no GPU here:", err, errors.Is(err, cuda.ErrUnavailable))
		return
	}
	devices, err := cuda.Devices()
	if err != nil {
		log.Fatal(err)
	}
	for _, d := range devices {
		fmt.Printf("%v: %d MiB, compute capability %d.%d\n", d, d.TotalMemory>>20, d.Major, d.Minor)
	}
}

func ExampleVersion() {
	fmt.Println(cuda.Version(12040))
	// Output: 12.4
}

func ExampleCopy() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	b, err := cuda.NewDeviceResource(0).Alloc(ctx, 5)
	if err != nil {
		log.Fatal(err)
	}
	defer b.Release()
	back := make([]byte, 5)
	if err := cuda.Copy(ctx, b, mem.FromBytes([]byte("hello"))); err != nil {
		log.Fatal(err)
	}
	if err := cuda.CopyToHost(ctx, back, b); err != nil {
		log.Fatal(err)
	}
	fmt.Println(bytes.Equal(back, []byte("hello")))
}

func ExampleStream_Copy() {
	ctx := context.Background()
	s, err := cuda.NewStream(0, cuda.StreamConfig{})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	pool, err := mem.NewPool(cuda.NewDeviceResource(0), mem.PoolConfig{})
	if err != nil {
		log.Fatal(err)
	}
	b, err := pool.Alloc(ctx, 1<<20)
	if err != nil {
		log.Fatal(err)
	}
	host, err := cuda.NewPinnedResource(0).Alloc(ctx, 1<<20)
	if err != nil {
		log.Fatal(err)
	}
	defer host.Release()
	if _, err := s.Fill(b, 7); err != nil {
		log.Fatal(err)
	}
	if _, err := s.Copy(host, b); err != nil {
		log.Fatal(err)
	}
	b.Release() // the copy holds it until it is done
	if err := host.WaitReady(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println(host.Bytes()[0])
	if err := pool.Close(); err != nil {
		log.Fatal(err)
	}
}

func ExampleExportMem() {
	b, err := cuda.NewDeviceResource(0).Alloc(context.Background(), 4096)
	if err != nil {
		log.Fatal(err)
	}
	defer b.Release() // when the other process is through
	h, err := cuda.ExportMem(b)
	if err != nil {
		log.Fatal(err)
	}
	text, _ := h.MarshalText()
	fmt.Printf("send this to the other process: %s\n", text)
}

func ExampleOpenMem() {
	var h cuda.MemHandle
	if err := h.UnmarshalText([]byte("text from the other process")); err != nil {
		log.Fatal(err)
	}
	b, err := cuda.OpenMem(-1, h)
	if err != nil {
		log.Fatal(err)
	}
	defer b.Release()
	fmt.Println(b.Len(), "bytes on device", b.Device())
}
