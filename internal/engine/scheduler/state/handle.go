package state

import "fmt"

// handle changes the state as far as an event does so directly: the rest follows from recommendations.
func (s *State) handle(ev Event) {
	switch ev := ev.(type) {
	case *TaskFinished:
		s.cause = causeTaskFinished
		s.taskFinished(ev)
	case *TaskErred:
		s.cause = causeTaskErred
		s.taskErred(ev)
	case *UpdateGraph:
		s.cause = causeUpdateGraph
		s.updateGraph(ev)
	case *ClientReleases:
		s.cause = causeClientReleasesKeys
		s.clientReleases(ev)
	case *ClientDesires:
		s.cause = causeClientDesiresKeys
		s.clientDesires(ev)
	case *AddKeys:
		s.cause = causeAddKeys
		s.addKeys(ev)
	case *ReleaseWorkerData:
		s.cause = causeReleaseWorkerData
		s.releaseWorkerData(ev)
	case *RequestRefreshWhoHas:
		s.cause = causeRequestRefreshWhoHas
		s.refreshWhoHas(ev)
	case *StealResponse:
		s.cause = causeStealResponse
		s.stealResponse(ev)
	case *Reschedule:
		s.cause = causeReschedule
		s.reschedule(ev)
	case *LongRunning:
		s.cause = causeLongRunning
		s.longRunning(ev)
	case *Tick:
		s.cause = causeTick
		s.tick()
	case *Heartbeat:
		s.cause = causeHeartbeat
		s.heartbeat(ev)
	case *AddWorker:
		s.cause = causeAddWorker
		s.addWorker(ev)
	case *RemoveWorker:
		s.cause = causeRemoveWorker
		if w := s.Worker(ev.Worker); w != nil {
			s.removeWorker(w, ev)
		}
	case *ForgetDeparted:
		s.cause = causeRemoveWorker
		if ev.Token != "" {
			s.forgetDeparted(ev.Token)
		}
	case *WorkerStatusChange:
		s.cause = causeWorkerStatusChange
		if w := s.Worker(ev.Worker); w != nil {
			s.setStatus(w, ev.Status)
		}
	case *SetResources:
		s.cause = causeSetResources
		s.setResources(ev)
	case *AddClient:
		s.cause = causeAddClient
		s.addClient(ev)
	case *RemoveClient:
		s.cause = causeRemoveClient
		s.removeClient(ev)
	case *ReportKey:
		s.cause = causeReportKey
		s.reportKey(ev)
	case *CancelKeys:
		s.cause = causeCancelKeys
		s.cancelKeys(ev)
	case *Retry:
		s.cause = causeRetry
		s.retry(ev)
	case *UpdateData:
		s.cause = causeUpdateData
		s.updateData(ev)
	case *Replicate:
		s.cause = causeReplicate
		s.replicate(ev)
	case *Rebalance:
		s.cause = causeRebalance
		s.rebalance(ev)
	case *RetireWorkers:
		s.cause = causeRetireWorkers
		s.retireWorkers(ev)
	case *SetRestrictions:
		s.cause = causeSetRestrictions
		s.setRestrictions(ev)
	case *Hold:
		s.cause = causeHold
		s.hold(ev)
	case *ExpectData:
		s.cause = causeExpectData
		s.expectData(ev)
	case *Restart:
		s.cause = causeRestart
		s.restart(ev)
	case *Watch:
		s.cause = causeWatch
		s.watch(ev)
	case *Rerun:
		s.cause = causeRerun
		s.rerun(ev)
	case *Unqueue:
		s.cause = causeUnqueue
		s.unqueue(ev)
	case *FailShortage:
		s.cause = causeFailShortage
		s.failShortage(ev)
	default:
		panic(fmt.Sprintf("scheduler/state: unknown event %T", ev))
	}
}

// cause is the name of an event in one byte: the log of transitions has many.
type cause uint8

const (
	causeTaskFinished cause = iota
	causeTaskErred
	causeUpdateGraph
	causeClientReleasesKeys
	causeClientDesiresKeys
	causeAddKeys
	causeReleaseWorkerData
	causeRequestRefreshWhoHas
	causeStealResponse
	causeReschedule
	causeLongRunning
	causeTick
	causeHeartbeat
	causeAddWorker
	causeRemoveWorker
	causeWorkerStatusChange
	causeSetResources
	causeAddClient
	causeRemoveClient
	causeReportKey
	causeCancelKeys
	causeRetry
	causeUpdateData
	causeReplicate
	causeRebalance
	causeRetireWorkers
	causeSetRestrictions
	causeHold
	causeExpectData
	causeRestart
	causeWatch
	causeRerun
	causeUnqueue
	causeFailShortage
)

var causeNames = [...]string{
	causeTaskFinished:         "task-finished",
	causeTaskErred:            "task-erred",
	causeUpdateGraph:          "update-graph",
	causeClientReleasesKeys:   "client-releases-keys",
	causeClientDesiresKeys:    "client-desires-keys",
	causeAddKeys:              "add-keys",
	causeReleaseWorkerData:    "release-worker-data",
	causeRequestRefreshWhoHas: "request-refresh-who-has",
	causeStealResponse:        "steal-response",
	causeReschedule:           "reschedule",
	causeLongRunning:          "long-running",
	causeTick:                 "tick",
	causeHeartbeat:            "heartbeat",
	causeAddWorker:            "add-worker",
	causeRemoveWorker:         "remove-worker",
	causeWorkerStatusChange:   "worker-status-change",
	causeSetResources:         "set-resources",
	causeAddClient:            "add-client",
	causeRemoveClient:         "remove-client",
	causeReportKey:            "report-key",
	causeCancelKeys:           "cancel-keys",
	causeRetry:                "retry",
	causeUpdateData:           "update-data",
	causeReplicate:            "replicate",
	causeRebalance:            "rebalance",
	causeRetireWorkers:        "retire-workers",
	causeSetRestrictions:      "set-restrictions",
	causeHold:                 "hold",
	causeExpectData:           "expect-data",
	causeRestart:              "restart",
	causeWatch:                "watch",
	causeRerun:                "rerun",
	causeUnqueue:              "unqueue",
	causeFailShortage:         "fail-shortage",
}

func (c cause) String() string { return causeNames[c] }
