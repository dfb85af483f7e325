package state

import "fmt"

// handle changes the state as far as an event does so directly: the rest follows from recommendations.
func (s *State) handle(ev Event) {
	switch ev := ev.(type) {
	case *TaskFinished:
		s.cause = "task-finished"
		s.taskFinished(ev)
	case *TaskErred:
		s.cause = "task-erred"
		s.taskErred(ev)
	case *UpdateGraph:
		s.cause = "update-graph"
		s.updateGraph(ev)
	case *ClientReleases:
		s.cause = "client-releases-keys"
		s.clientReleases(ev)
	case *ClientDesires:
		s.cause = "client-desires-keys"
		s.clientDesires(ev)
	case *AddKeys:
		s.cause = "add-keys"
		s.addKeys(ev)
	case *ReleaseWorkerData:
		s.cause = "release-worker-data"
		s.releaseWorkerData(ev)
	case *RequestRefreshWhoHas:
		s.cause = "request-refresh-who-has"
		s.refreshWhoHas(ev)
	case *StealResponse:
		s.cause = "steal-response"
		s.stealResponse(ev)
	case *Reschedule:
		s.cause = "reschedule"
		s.reschedule(ev)
	case *LongRunning:
		s.cause = "long-running"
		s.longRunning(ev)
	case *Tick:
		s.cause = "tick"
		s.tick()
	case *Heartbeat:
		s.cause = "heartbeat"
		s.heartbeat(ev)
	case *AddWorker:
		s.cause = "add-worker"
		s.addWorker(ev)
	case *RemoveWorker:
		s.cause = "remove-worker"
		if w := s.Worker(ev.Worker); w != nil {
			s.removeWorker(w, ev)
		}
	case *WorkerStatusChange:
		s.cause = "worker-status-change"
		if w := s.Worker(ev.Worker); w != nil {
			s.setStatus(w, ev.Status)
		}
	case *SetResources:
		s.cause = "set-resources"
		s.setResources(ev)
	case *AddClient:
		s.cause = "add-client"
		s.addClient(ev)
	case *RemoveClient:
		s.cause = "remove-client"
		s.removeClient(ev)
	case *ReportKey:
		s.cause = "report-key"
		s.reportKey(ev)
	case *CancelKeys:
		s.cause = "cancel-keys"
		s.cancelKeys(ev)
	case *Retry:
		s.cause = "retry"
		s.retry(ev)
	case *UpdateData:
		s.cause = "update-data"
		s.updateData(ev)
	case *Replicate:
		s.cause = "replicate"
		s.replicate(ev)
	case *Rebalance:
		s.cause = "rebalance"
		s.rebalance(ev)
	case *RetireWorkers:
		s.cause = "retire-workers"
		s.retireWorkers(ev)
	case *SetRestrictions:
		s.cause = "set-restrictions"
		s.setRestrictions(ev)
	case *Hold:
		s.cause = "hold"
		s.hold(ev)
	case *Restart:
		s.cause = "restart"
		s.restart(ev)
	default:
		panic(fmt.Sprintf("scheduler/state: unknown event %T", ev))
	}
}
