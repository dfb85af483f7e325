package command

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"

	"go.millstream.dev/bench/internal/taskbench"
	"go.millstream.dev/internal/bench/benchfmt"
	"go.millstream.dev/internal/bench/benchpeer"
	"go.millstream.dev/internal/bench/ucxbench"
)

// deviceBytes is about how much data a peer of device-fetch moves per measurement.
const deviceBytes = 64 << 30

// rawDevice returns the bandwidth of package ucx alone: active messages, as data connections send them, with parts
// messages in flight.
func rawDevice(ctx context.Context, device int, size int64, parts int) (float64, error) {
	return rawBandwidth(ctx, "cuda_ipc", ucxbench.MemPool, device, size, parts, max(2*parts, int(deviceBytes/size)))
}

// hostBytes is about how much data package ucx moves per measurement in host memory.
const hostBytes = 2 << 30

// rawHost is rawDevice for host memory of the Go heap, over shared memory, with one message in flight.
func rawHost(ctx context.Context, size int64) (float64, error) {
	return rawBandwidth(ctx, "shm", ucxbench.MemHeap, -1, size, 1, max(8, int(hostBytes/size)))
}

// rawBandwidth returns the bandwidth of n active messages between two processes in GB/s.
func rawBandwidth(ctx context.Context, setting, memory string, device int, size int64, parts, n int) (float64, error) {
	env, err := ucxbench.SettingEnv(setting, memory)
	if err != nil {
		return 0, err
	}
	pair, err := ucxbench.StartPair(ctx, ucxbench.SelfStarter(ucxPeerName), env,
		ucxbench.OpenArgs{Mode: "spin", Endpoint: ucxbench.EndpointLifeline, Device: device})
	if err != nil {
		return 0, err
	}
	defer pair.Close()
	s, err := pair.Run(ctx, ucxbench.Spec{Case: "am-bw", Size: size, Mem: memory, Window: parts,
		Iterations: n, Warmup: max(1, n/8), Goroutines: 1, Seed: rand.Uint64()})
	if err != nil {
		return 0, err
	}
	if s.Seconds <= 0 || s.Operations <= 0 {
		return 0, errors.New("no measurement")
	}
	return benchfmt.GBps(float64(size)*float64(s.Operations), s.Seconds), nil
}

// asyncDevice returns the one-way bandwidth of the asyncio API of UCXX, from a ping-pong.
func asyncDevice(ctx context.Context, size int64) (float64, error) {
	tool, err := benchpeer.FindUCXX(taskbench.AsyncPeer, os.Environ())
	if err != nil {
		return 0, err
	}
	defer tool.Close()
	n := int(deviceBytes / size / 4)
	micros, err := tool.Run(ctx, benchpeer.UCXXRun{Case: "tag-lat", Size: size, Iterations: n, Warmup: n / 8, Window: 1,
		Memory: "cuda"})
	if err != nil {
		return 0, err
	}
	return benchfmt.GBps(float64(size), micros/1e6), nil
}
