package client

import "go.millstream.dev/internal/task"

// build is set with -ldflags "-X go.millstream.dev/client.build=TEXT". It replaces the build ID of programs of one
// version that consist of several files, such as one for each architecture.
var build string

func init() { task.DeclareBuild(build) }
