package state

// eventKind is the kind of an event in the log.
type eventKind uint8

const (
	evCompute eventKind = iota
	evFree
	evRemoveReplicas
	evAcquireReplicas
	evSteal
	evCancelCompute
	evRefresh
	evRemovePeer
	evSchedulerLost
	evReattach
	evPause
	evUnpause
	evSetResources
	evUpdateData
	evFindMissing
	evRetryBusy
	evSuccess
	evFailure
	evReschedule
	evSecede
	evGatherSuccess
	evGatherBusy
	evGatherNetwork
	evGatherFailure
	evDataLost
)

var eventNames = [...]string{
	"compute-task", "free-keys", "remove-replicas", "acquire-replicas", "steal-request", "cancel-compute",
	"refresh-who-has", "remove-worker", "scheduler-lost", "reattach", "pause", "unpause", "set-resources",
	"update-data", "find-missing", "retry-busy-worker", "execute-success", "execute-failure", "reschedule",
	"secede", "gather-dep-success", "gather-dep-busy", "gather-dep-network-failure", "gather-dep-failure",
	"data-lost",
}

func (k eventKind) String() string { return eventNames[k] }

func (e *ComputeTask) kind() eventKind          { return evCompute }
func (e *FreeKeys) kind() eventKind             { return evFree }
func (e *RemoveReplicas) kind() eventKind       { return evRemoveReplicas }
func (e *AcquireReplicas) kind() eventKind      { return evAcquireReplicas }
func (e *StealRequest) kind() eventKind         { return evSteal }
func (e *CancelCompute) kind() eventKind        { return evCancelCompute }
func (e *RefreshWhoHas) kind() eventKind        { return evRefresh }
func (e *RemovePeer) kind() eventKind           { return evRemovePeer }
func (e *SchedulerLost) kind() eventKind        { return evSchedulerLost }
func (e *Reattach) kind() eventKind             { return evReattach }
func (e *Pause) kind() eventKind                { return evPause }
func (e *Unpause) kind() eventKind              { return evUnpause }
func (e *SetResources) kind() eventKind         { return evSetResources }
func (e *UpdateData) kind() eventKind           { return evUpdateData }
func (e *FindMissing) kind() eventKind          { return evFindMissing }
func (e *RetryBusy) kind() eventKind            { return evRetryBusy }
func (e *ExecuteSuccess) kind() eventKind       { return evSuccess }
func (e *ExecuteFailure) kind() eventKind       { return evFailure }
func (e *Reschedule) kind() eventKind           { return evReschedule }
func (e *Secede) kind() eventKind               { return evSecede }
func (e *GatherSuccess) kind() eventKind        { return evGatherSuccess }
func (e *GatherBusy) kind() eventKind           { return evGatherBusy }
func (e *GatherNetworkFailure) kind() eventKind { return evGatherNetwork }
func (e *GatherFailure) kind() eventKind        { return evGatherFailure }
func (e *DataLost) kind() eventKind             { return evDataLost }

func (e *ComputeTask) stimulus() string          { return e.Stimulus }
func (e *FreeKeys) stimulus() string             { return e.Stimulus }
func (e *RemoveReplicas) stimulus() string       { return e.Stimulus }
func (e *AcquireReplicas) stimulus() string      { return e.Stimulus }
func (e *StealRequest) stimulus() string         { return e.Stimulus }
func (e *CancelCompute) stimulus() string        { return e.Stimulus }
func (e *RefreshWhoHas) stimulus() string        { return e.Stimulus }
func (e *RemovePeer) stimulus() string           { return e.Stimulus }
func (e *SchedulerLost) stimulus() string        { return e.Stimulus }
func (e *Reattach) stimulus() string             { return e.Stimulus }
func (e *Pause) stimulus() string                { return e.Stimulus }
func (e *Unpause) stimulus() string              { return e.Stimulus }
func (e *SetResources) stimulus() string         { return e.Stimulus }
func (e *UpdateData) stimulus() string           { return e.Stimulus }
func (e *FindMissing) stimulus() string          { return e.Stimulus }
func (e *RetryBusy) stimulus() string            { return e.Stimulus }
func (e *ExecuteSuccess) stimulus() string       { return e.Stimulus }
func (e *ExecuteFailure) stimulus() string       { return e.Stimulus }
func (e *Reschedule) stimulus() string           { return e.Stimulus }
func (e *Secede) stimulus() string               { return e.Stimulus }
func (e *GatherSuccess) stimulus() string        { return e.Stimulus }
func (e *GatherBusy) stimulus() string           { return e.Stimulus }
func (e *GatherNetworkFailure) stimulus() string { return e.Stimulus }
func (e *GatherFailure) stimulus() string        { return e.Stimulus }
func (e *DataLost) stimulus() string             { return e.Stimulus }
