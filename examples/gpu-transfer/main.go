// Command gpu-transfer moves GPU memory from one process to another over UCX and prints bandwidth and transports.
//
//	gpu-transfer listen 127.0.0.1:9000
//	gpu-transfer send 127.0.0.1:9000
//
// Flags come first: -device 1 for another GPU, -host for host memory, -bytes 67108864 for another size.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"go.millstream.dev/cuda"
	"go.millstream.dev/mem"
	"go.millstream.dev/ucx"
)

const (
	rounds   = 20
	maxBytes = 16 << 30
	// Tags of the messages: size, data, and the reply after the last round.
	tagSize, tagData, tagDone = 1, 2, 3
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "gpu-transfer:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, args []string) error {
	flags := flag.NewFlagSet("gpu-transfer", flag.ContinueOnError)
	flags.SetOutput(out)
	device := flags.Int("device", 0, "index of the GPU")
	host := flags.Bool("host", false, "host memory instead of GPU memory")
	size := flags.Int("bytes", 256<<20, "size of a transfer in bytes")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 2 || *size < 1 || *size > maxBytes {
		return errors.New("usage: gpu-transfer [FLAGS] listen ADDRESS | gpu-transfer [FLAGS] send ADDRESS")
	}
	memory, err := resource(*device, *host)
	if err != nil {
		return err
	}
	switch address := flags.Arg(1); flags.Arg(0) {
	case "listen":
		l, err := ucx.Listen(ctx, address)
		if err != nil {
			return err
		}
		defer l.Close()
		return receive(ctx, out, l, memory)
	case "send":
		return send(ctx, out, address, memory, *size)
	}
	return fmt.Errorf("unknown command %q; use listen or send", flags.Arg(0))
}

// resource returns the memory of the GPU, or that of the host.
func resource(device int, host bool) (mem.Resource, error) {
	if host {
		return mem.NewMmap(mem.MmapConfig{}), nil
	}
	if err := cuda.Available(); err != nil {
		return nil, err
	}
	return cuda.NewDeviceResource(device), nil
}

// receive receives the transfers of one peer into memory of its own, and checks the bytes of the last one.
func receive(ctx context.Context, out io.Writer, l *ucx.Listener, memory mem.Resource) error {
	ep, err := l.Accept(ctx)
	if err != nil {
		return err
	}
	defer ep.Close()
	head := make([]int64, 1)
	if _, err := ep.Recv(ctx, ucx.Of(head), tagSize, ucx.FullMask); err != nil {
		return err
	}
	if head[0] < 1 || head[0] > maxBytes {
		return fmt.Errorf("size of %d bytes; the peer is not gpu-transfer", head[0])
	}
	b, err := memory.Alloc(ctx, int(head[0]))
	if err != nil {
		return err
	}
	defer b.Release()
	for range rounds {
		if _, err := ep.Recv(ctx, ucx.Buffer(b), tagData, ucx.FullMask); err != nil {
			return err
		}
	}
	wrong, err := count(ctx, b)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%d bytes in %s memory, %d wrong\n", b.Len(), b.Kind(), wrong)
	return ep.Send(ctx, ucx.Of([]int64{wrong}), tagDone)
}

// count returns the number of bytes that differ from the pattern of the sender.
func count(ctx context.Context, b *mem.Buffer) (wrong int64, err error) {
	got := make([]byte, b.Len())
	if b.Kind() == mem.Device {
		err = cuda.CopyToHost(ctx, got, b)
	} else {
		copy(got, b.Bytes())
	}
	for i, x := range got {
		if x != byte(i%251) {
			wrong++
		}
	}
	return wrong, err
}

// send transfers memory several times and prints the bandwidth.
func send(ctx context.Context, out io.Writer, address string, memory mem.Resource, size int) error {
	b, err := memory.Alloc(ctx, size)
	if err != nil {
		return err
	}
	defer b.Release()
	pattern := make([]byte, size)
	for i := range pattern {
		pattern[i] = byte(i % 251)
	}
	if b.Kind() == mem.Device {
		err = cuda.CopyFromHost(ctx, b, pattern)
	} else {
		copy(b.Bytes(), pattern)
	}
	if err != nil {
		return err
	}
	ep, err := ucx.Dial(ctx, address)
	if err != nil {
		return err
	}
	defer ep.Close()
	if err := ep.Send(ctx, ucx.Of([]int64{int64(size)}), tagSize); err != nil {
		return err
	}
	// The first transfer maps the memory of the peer.
	var begin time.Time
	for i := range rounds {
		if i == 1 {
			begin = time.Now()
		}
		if err := ep.Send(ctx, ucx.Buffer(b), tagData); err != nil {
			return err
		}
	}
	seconds := time.Since(begin).Seconds()
	transports, err := ep.Transports()
	if err != nil {
		return err
	}
	done := make([]int64, 1)
	if _, err := ep.Recv(ctx, ucx.Of(done), tagDone, ucx.FullMask); err != nil {
		return err
	}
	if done[0] != 0 {
		return fmt.Errorf("%d bytes arrived wrong", done[0])
	}
	bandwidth := float64(rounds-1) * float64(size) / seconds / 1e9
	_, err = fmt.Fprintf(out, "%.1f GB/s from %s memory over %v\n", bandwidth, b.Kind(), transports)
	return err
}
