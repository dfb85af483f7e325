package kmeansbench

import (
	"context"
	"fmt"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/client"
	"go.millstream.dev/clique"
	"go.millstream.dev/cluster"
	"go.millstream.dev/cuda"
	"go.millstream.dev/frame"
	"go.millstream.dev/frame/kmeans"
)

// HostName is the name of the fit on the CPU when the GPU is compared with it.
const HostName = "host"

// GPUMode marks figures of the GPU.
const GPUMode = "GPU"

// Devices specifies whether the GPU is used.
type Devices string

// Values of Devices.
const (
	DeviceAuto Devices = "auto" // if there is a GPU
	DeviceOn   Devices = "on"   // an error without a GPU
	DeviceOff  Devices = "off"
)

// gpu reports whether the GPU is used.
func (o Options) gpu() (bool, error) {
	err := cuda.Available()
	switch o.Device {
	case DeviceOff:
		return false, nil
	case DeviceOn:
		return err == nil, err
	}
	return err == nil, nil
}

// gpuSide is a cluster of workers with GPUs that have the data of one type.
type gpuSide struct {
	cluster *cluster.Cluster
	client  *client.Client
	clique  *clique.Clique
	frame   *frame.Frame
}

func startGPU(ctx context.Context, o Options, path, dtype string) (g *gpuSide, err error) {
	g = &gpuSide{}
	defer func() {
		if err != nil {
			g.stop()
		}
	}()
	var devices []string
	for range o.GPUWorkers {
		devices = append(devices, "0")
	}
	pool := fmt.Sprint(int64(o.Rows)*int64(o.Features)*int64(size(dtype))/int64(o.GPUWorkers)*2 + 256<<20)
	if g.cluster, err = cluster.LocalCUDA(ctx, cluster.CUDAConfig{Devices: devices, MemoryLimit: "0",
		RMM: cluster.RMMConfig{PoolSize: pool}}, cluster.Config{}); err != nil {
		return g, err
	}
	if g.client, err = g.cluster.Client(ctx); err != nil {
		return g, err
	}
	host, err := loaded(ctx, g.client, g.cluster.Workers(), o, path, dtype)
	if err != nil {
		return g, err
	}
	defer host.Release()
	if g.frame, err = host.ToDevice(ctx); err != nil {
		return g, err
	}
	if err = g.frame.Persist(ctx); err != nil {
		return g, err
	}
	g.clique, err = clique.Form(ctx, g.client, clique.Options{Name: "bench", Deterministic: true}) // as in a fit
	return g, err
}

func (g *gpuSide) stop() {
	if g.client != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if g.clique != nil {
			_ = g.clique.Dissolve(ctx) // the cluster is closed below
		}
		_ = g.client.Close()
	}
	if g.cluster != nil {
		_ = g.cluster.Close()
	}
}

// fit runs the fit of a round on the GPU. Labels stay on the device.
func (g *gpuSide) fit(ctx context.Context, init [][]float64, iterations int) (outcome, error) {
	begin := time.Now()
	m, labels, err := kmeans.FitPredict(ctx, g.frame, kmeans.Options{Init: init, MaxIter: iterations, Tol: -1,
		Clique: g.clique})
	if err != nil {
		return outcome{}, err
	}
	out := outcome{Seconds: time.Since(begin).Seconds(), Inertia: m.Inertia}
	defer labels.Release()
	host, err := labels.ToHost(ctx)
	if err != nil {
		return outcome{}, err
	}
	defer host.Release()
	out.Counts, err = countLabels(ctx, host, len(init))
	return out, err
}

// loaded returns the rows of the file as a frame, with a partition on each worker.
func loaded(ctx context.Context, c *client.Client, workers []cluster.WorkerInfo, o Options, path,
	dtype string) (*frame.Frame, error) {
	n := len(workers)
	pieces := make([]piece, n)
	parts := make([]*client.Future[arrow.RecordBatch], n)
	for i, w := range workers {
		pieces[i] = piece{Path: path, Type: dtype, Rows: o.Rows, Features: o.Features, From: o.Rows * i / n,
			To: o.Rows * (i + 1) / n}
		parts[i] = load.Submit(ctx, c, client.Val(pieces[i]), client.WithWorkers(w.Address))
	}
	f, err := frame.New(ctx, c, pieces[0].schema(), parts)
	if err != nil {
		return nil, err
	}
	return f, f.Persist(ctx)
}
