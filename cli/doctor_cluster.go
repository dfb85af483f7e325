package cli

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.millstream.dev/cli/internal/doctor"
	"go.millstream.dev/client"
	"go.millstream.dev/cluster"
	"go.millstream.dev/comm"
	"go.millstream.dev/config"
	"go.millstream.dev/internal/proc/cmdline"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/secure"
	"go.millstream.dev/worker"
)

// maxPairs bounds the number of measured pairs in a large cluster.
const maxPairs = 90

// examineCluster moves data between each two workers of a running cluster and reports the results.
func examineCluster(ctx context.Context, address string, size int64) (doctor.Report, error) {
	cl, err := cluster.Connect(ctx, address)
	if err != nil {
		return doctor.Report{}, err
	}
	defer cl.Close()
	settings, err := config.Default()
	if err != nil {
		return doctor.Report{}, err
	}
	dial, _, err := comm.FromConfig(settings, secure.Client)
	if err != nil {
		return doctor.Report{}, err
	}
	network, err := networkOf(settings)
	if err != nil {
		return doctor.Report{}, err
	}
	pool := rpc.NewPool(network, rpc.PoolConfig{Dial: dial})
	defer pool.Close()
	workers, err := cl.Workers(ctx)
	if err != nil {
		return doctor.Report{}, err
	}
	x := &clusterExam{cl: cl, pool: pool, size: size}
	for _, w := range workers {
		m := doctor.Member{Name: cmp.Or(w.Name, w.Address), Address: w.Address}
		if d, err := x.diagnose(ctx, w.Address); err != nil {
			m.Silent = cmdline.OneLine(err)
		} else {
			m.Boot, m.IPC, m.PID, m.NoUCX = d.Boot, d.IPC, d.PID, d.UCX
			m.DataAddresses, m.Trusted = d.DataAddresses, d.Trusted
			if d.Registry == task.Hash() { // other programs cannot run deviceSample
				m.GPU = d.GPU
			}
		}
		x.members = append(x.members, m)
	}
	slices.SortFunc(x.members, func(a, b doctor.Member) int { return strings.Compare(a.Name, b.Name) })
	return x.report(ctx), ctx.Err()
}

// clusterExam is one examination of a cluster.
type clusterExam struct {
	cl      *client.Client
	pool    *rpc.Pool
	size    int64
	members []doctor.Member
}

func (x *clusterExam) diagnose(ctx context.Context, address string) (worker.Diagnosis, error) {
	var d worker.Diagnosis
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	err := x.pool.Call(ctx, address, worker.DiagnosisOp, nil, &d)
	return d, err
}

func (x *clusterExam) report(ctx context.Context) doctor.Report {
	if len(x.members) < 2 {
		return doctor.Report{Findings: []doctor.Finding{{ID: "transfer", Severity: doctor.Info,
			Title: fmt.Sprintf("%d worker(s): no pair to measure", len(x.members))}}}
	}
	var flows []doctor.Flow
	left := 0
	for i, a := range x.members {
		for j, b := range x.members {
			switch {
			case i == j:
			case len(flows) >= maxPairs:
				left++
			default:
				flows = append(flows, x.measure(ctx, a, b))
				if a.GPU != "" && b.GPU != "" && flows[len(flows)-1].Err == nil {
					flows = append(flows, x.measureDevice(ctx, a, b))
				}
			}
		}
	}
	r := doctor.Judge(flows)
	if left > 0 {
		r.Findings = append(r.Findings, doctor.Finding{ID: "transfer", Severity: doctor.Info,
			Title: fmt.Sprintf("%d further pairs were not measured", left)})
	}
	return r
}

// measure stores data on one worker and lets another fetch it, twice, because the first transfer opens the connection.
func (x *clusterExam) measure(ctx context.Context, from, to doctor.Member) doctor.Flow {
	f := doctor.Flow{From: from, To: to}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for range 2 {
		data := make([]byte, x.size)
		_, _ = rand.Read(data[:min(x.size,
			4096)]) // for a unique key, and so that the data is not compressed to nothing
		futures, err := client.Scatter(ctx, x.cl, [][]byte{data}, client.ScatterOptions{Workers: []string{from.Address},
			Unhashed: true})
		if err != nil {
			f.Err = err
			return f
		}
		start := time.Now()
		err = x.cl.Replicate(ctx, 2, []string{from.Address, to.Address}, futures[0])
		took := time.Since(start)
		futures[0].Release()
		if err != nil {
			f.Err = err
			return f
		}
		f.Rate = float64(x.size) / took.Seconds() // includes the scheduler
	}
	x.addRecord(ctx, &f)
	return f
}

// addRecord adds the record of the worker that fetched the data.
func (x *clusterExam) addRecord(ctx context.Context, f *doctor.Flow) {
	d, err := x.diagnose(ctx, f.To.Address)
	if err != nil {
		f.Scheme, _, _ = strings.Cut(f.To.Address, "://")
		return
	}
	for _, t := range slices.Backward(d.Transfers) {
		if t.Incoming && t.Peer == f.From.Address && t.Bytes >= x.size && t.Seconds > 0 && t.Error == "" {
			f.Scheme, f.Transports, f.Rate = t.Scheme, t.Transports, float64(t.Bytes)/t.Seconds
			f.Landed = t.Device >= x.size
			return
		}
	}
}
