package ucxcomm

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/testkit/leak"
)

// roleVariable makes the test binary a process that echoes, instead of running tests. Its
// value is the backend's name.
const roleVariable = "MILLSTREAM_UCXCOMM_TEST_ROLE"

// fileRole and a path are the role of one that listens by file.
const fileRole = "file "

// stripedRole is the role of one whose comms have stripes.
const stripedRole = "striped"

func TestMain(m *testing.M) {
	joinTime = time.Minute // on a busy machine stripes open late, but they open
	if role := os.Getenv(roleVariable); role != "" {
		serve(role)
		return
	}
	engineLinger = 20 * time.Millisecond // each test checks that nothing is left
	// What UCX sets up once per process is no leak of a test.
	if e, err := openEngine(context.Background(), Settings{}); err == nil {
		_, _ = e.dataUCX()
		e.release()
		e.expire()
	}
	os.Exit(leak.Main(m))
}

// serve tells its address and echoes until it is killed.
func serve(backend string) {
	ctx := context.Background()
	var l comm.Listener
	var err error
	if path, ok := strings.CutPrefix(backend, fileRole); ok {
		l, err = newFile(Settings{}).Listen(ctx, path, comm.ListenConfig{})
	} else if backend == stripedRole {
		l, err = newBackend("ucxx", Settings{Options: map[string]string{"TLS": "tcp"}}).Listen(ctx, "127.0.0.1:0",
			comm.ListenConfig{Staged: comm.StagedConfig{Stripes: 2}})
	} else {
		l, err = backends[backend].Listen(ctx, "127.0.0.1:0", comm.ListenConfig{})
	}
	if err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
	fmt.Println(l.ContactAddr())
	for {
		c, err := l.Accept(ctx)
		if err != nil {
			os.Exit(1)
		}
		go func() {
			defer c.Close()
			for {
				m, err := c.Read(ctx)
				if err != nil {
					return
				}
				if err := c.Write(ctx, m); err != nil {
					return
				}
				m.Release()
			}
		}()
	}
}

// backends are the forms in which the comms of this package work.
var backends = map[string]*backend{
	"data":         newBackend("ucxx", Settings{}),
	"data, tcp":    newBackend("ucxx", Settings{Options: map[string]string{"TLS": "tcp,self"}}),
	"plain":        newBackend("ucxx", Settings{PlainTransports: true}),
	"multi-buffer": newBackend("ucxx", Settings{PlainTransports: true, MultiBuffer: true}),
}
