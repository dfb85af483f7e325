package worker

import (
	"errors"

	"go.millstream.dev/internal/comm/peermem"
	"go.millstream.dev/internal/engine/worker/state"
	"go.millstream.dev/internal/engine/worker/store"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/wire"
	"go.millstream.dev/worker/internal/execution"
	"go.millstream.dev/worker/internal/metrics"
	"go.millstream.dev/worker/internal/transfer"
)

// transferConfig returns the configuration of transfers.
func (w *Worker) transferConfig() transfer.Config {
	var observe func(*transfer.Record, string)
	if w.cfg.Dashboard != "" { // without a server there is no reader
		w.moved = metrics.NewTransfers(func() string { return w.address })
		observe = w.moved.Observe
	}
	return transfer.Config{Logger: w.log, Network: w.cfg.Network, Dial: w.cfg.Dial, Observe: observe,
		Accept: w.logRejections(w.cfg.Accept),
		Listen: w.cfg.DataConnections.Listen, Trusted: w.cfg.DataConnections.Trusted,
		NoCUDAIPC: w.cfg.DataConnections.NoCUDAIPC, Outgoing: w.cfg.Outgoing,
		AckTimeout: w.cfg.AckTimeout,
		Records:    w.cfg.Records, Data: w.data, Table: &w.table,
		Worker: transfer.Worker{
			Context: w.ctx,
			Go:      w.tasks.Go,
			Paused:  func() bool { return w.Status() == statusPaused },
			Lost:    func(key task.Key, err error) { w.do(func() { w.reportDataLost(key, err) }) },
			Encode:  w.sidecar.Encode,
			IsActor: func(key task.Key) bool { return w.exec.Actor(key) != nil },
			Room:    func(f *transfer.Fetch) { w.memory.Admit(w.ctx, f.Peer, f.Values, f.Stored) },
			Deliver: func(f *transfer.Fetch) { w.inbox.put(item{fetch: f}) },
		},
	}
}

// publishing returns the configuration of the device for the store. Results on it are published in the memory of this
// process for workers on the same GPU, unless the worker has no data connections or no cuda_ipc.
func (c *Config) publishing(table *peermem.Table) *store.DeviceConfig {
	if c.Device == nil || c.DataConnections.Listen == "" || c.DataConnections.NoCUDAIPC {
		return c.Device
	}
	device := *c.Device
	device.Publish = func(key task.Key, v *task.Value) func() {
		if live, ok := v.Live(); ok {
			if _, array := live.(*wire.DeviceArray); !array {
				return nil // encoding it may take long, and it may never be requested
			}
		} else if v.Remote() != nil {
			return nil
		}
		s, err := v.Retained()
		if err != nil {
			return nil // reported to peers that request it
		}
		defer s.Release()
		if p := table.Publish([]byte(key), s); p != nil {
			return p.Withdraw
		}
		return nil
	}
	return &device
}

// finishFetch applies the result of a transfer to the state. The caller holds the turn.
func (w *Worker) finishFetch(f *transfer.Fetch) {
	switch {
	case f.Err == nil && f.Busy:
		w.apply(&state.GatherBusy{Stimulus: w.stimulus, Peer: f.Peer})
	case f.Err == nil:
		for i, v := range f.Values {
			w.data.Put(f.Stored[i].Key, v, f.Stored[i].NBytes)
		}
		w.exec.RecordArrivals(f.Stored, f.Took)
		w.apply(&state.GatherSuccess{Stimulus: w.stimulus, Peer: f.Peer, Data: f.Stored, Device: f.Device})
	case errors.Is(f.Err, transfer.ErrUnreadable):
		w.apply(&state.GatherFailure{Stimulus: w.stimulus, Peer: f.Peer, Failure: execution.Failure(f.Err)})
	default:
		w.log.Info("peer unreachable", "peer", f.Peer, "error", f.Err)
		w.apply(&state.GatherNetworkFailure{Stimulus: w.stimulus, Peer: f.Peer})
	}
}
