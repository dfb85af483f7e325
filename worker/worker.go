package worker

import "errors"

// Why a worker has ended, found by errors.Is in Err.
var (
	// ErrClosed is a worker that was closed on this side.
	ErrClosed = errors.New("worker is closed")
	// ErrSchedulerClosed is an order of the scheduler to end.
	ErrSchedulerClosed = errors.New("the scheduler closed the worker")
	// ErrSchedulerLost is a connection to the scheduler that ended and did not come back.
	ErrSchedulerLost = errors.New("the connection to the scheduler is lost")
	// ErrRefused is a registration that the scheduler refused.
	ErrRefused = errors.New("the scheduler refuses the worker")
	// ErrMemory is a process that went above Memory.Terminate.
	ErrMemory = errors.New("the process exceeded its memory limit")
)
