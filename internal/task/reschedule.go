package task

import "errors"

// ErrReschedule is returned by a function, alone or wrapped, that gives its task back: the
// scheduler then chooses a worker again. (Dask: raise Reschedule())
var ErrReschedule = errors.New("task: to be run elsewhere")
