package ucx

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

func init() {
	roles["exchange"] = exchangeBoth
	roles["exchange-second"] = func(*control) error { return exchangeSide("second", "first") }
}

// Where the two processes meet, and how their addresses travel: "file" or "dns".
const exchangeDir, exchangeKind = "MILLSTREAM_UCX_TEST_DIR", "MILLSTREAM_UCX_TEST_KIND"

// exchangeBoth is the first process. It starts the second one, which so shares its
// network namespace.
func exchangeBoth(c *control) error {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), roleVariable+"=exchange-second")
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, os.Stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	err := exchangeSide("first", "second")
	if other := cmd.Wait(); other != nil {
		err = errors.Join(err, fmt.Errorf("second process: %w: %s", other, said.String()))
	}
	if err == nil {
		c.say("moved")
	}
	return err
}

// exchangeSide publishes this process's address, looks the other's up, and moves data.
func exchangeSide(name, other string) error {
	ctx, cancel := roleContext()
	defer cancel()
	interfaces, err := net.Interfaces()
	if err != nil {
		return err
	}
	for _, i := range interfaces {
		if i.Flags&net.FlagUp != 0 {
			return fmt.Errorf("interface %s is up in a new network namespace", i.Name)
		}
	}
	w, done, err := roleWorker(Config{})
	if err != nil {
		return err
	}
	defer done()
	mine, err := w.Address()
	if err != nil {
		return err
	}
	text, err := mine.MarshalText()
	if err != nil {
		return err
	}
	dir := os.Getenv(exchangeDir)
	if err := publish(dir, name, text); err != nil {
		return err
	}
	look := func() ([]byte, error) { return os.ReadFile(filepath.Join(dir, other)) }
	if os.Getenv(exchangeKind) == "dns" {
		look = func() ([]byte, error) { return lookupTXT(ctx, dir, other) }
	}
	if text, err = patiently(ctx, look); err != nil {
		return err
	}
	var theirs WorkerAddress
	if err := theirs.UnmarshalText(text); err != nil {
		return err
	}
	ep, err := w.Connect(theirs, &EndpointConfig{Name: other})
	if err != nil {
		return err
	}
	if err := moveBothWays(ctx, ep, name, other); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	// Nobody closes before both have everything.
	if err := publish(dir, name+".done", nil); err != nil {
		return err
	}
	if _, err := patiently(ctx, func() ([]byte, error) {
		return os.ReadFile(filepath.Join(dir,
			other+".done"))
	}); err != nil {
		return err
	}
	return ep.Shutdown(ctx)
}

// moveBothWays sends a short and a long message each way and looks at the transports.
func moveBothWays(ctx context.Context, ep *Endpoint, name, other string) error {
	for i, n := range []int{1, 1 << 20} {
		send := ep.StartSend(Bytes(bytes.Repeat([]byte(name), n)), uint64(i))
		want := bytes.Repeat([]byte(other), n)
		got := make([]byte, len(want))
		if _, err := ep.Worker().Recv(ctx, Bytes(got), uint64(i), FullMask); err != nil {
			return err
		}
		if !bytes.Equal(got, want) {
			return fmt.Errorf("%d bytes from %s are not what it sent", len(got), other)
		}
		if err := send.Wait(ctx); err != nil {
			return err
		}
	}
	transports, err := ep.Transports()
	if err != nil {
		return err
	}
	shared := func(l Transport) bool { return slices.Contains([]string{"posix", "sysv", "cma"}, l.Name) }
	if len(transports) == 0 || slices.ContainsFunc(transports, func(l Transport) bool { return !shared(l) }) {
		return fmt.Errorf("transports without any network: %v", transports)
	}
	return nil
}

// publish writes a file that is whole when it is there.
func publish(dir, name string, text []byte) error {
	tmp := filepath.Join(dir, "."+name)
	if err := os.WriteFile(tmp, text, 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, filepath.Join(dir, name))
}

// patiently asks until there is an answer.
func patiently(ctx context.Context, look func() ([]byte, error)) ([]byte, error) {
	for {
		b, err := look()
		if err == nil {
			return b, nil
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(5 * time.Millisecond):
		}
	}
}

const testZone = ".workers.example."

// lookupTXT asks the test's own name server, over a Unix socket.
func lookupTXT(ctx context.Context, dir, name string) ([]byte, error) {
	r := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		c, err := d.DialContext(ctx, "unix", filepath.Join(dir, "dns"))
		if err != nil {
			return nil, err
		}
		return struct{ net.Conn }{c}, nil // a stream: the resolver takes a UnixConn for datagrams
	}}
	records, err := r.LookupTXT(ctx, name+testZone)
	if err != nil {
		return nil, err
	}
	if len(records) != 1 {
		return nil, fmt.Errorf("%d TXT records for %s", len(records), name)
	}
	return []byte(records[0]), nil
}

// serveTXT is a name server for one connection: TXT records from the files of dir.
func serveTXT(c net.Conn, dir string) {
	defer c.Close()
	for {
		var size [2]byte
		if _, err := io.ReadFull(c, size[:]); err != nil {
			return
		}
		query := make([]byte, binary.BigEndian.Uint16(size[:]))
		if _, err := io.ReadFull(c, query); err != nil || len(query) < 12 {
			return
		}
		answer := answerTXT(query, dir)
		if _, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...)); err != nil {
			return
		}
	}
}

func answerTXT(query []byte, dir string) []byte {
	end, name := 12, ""
	for end < len(query) && query[end] != 0 {
		n := int(query[end])
		name += string(query[end+1:end+1+n]) + "."
		end += 1 + n
	}
	question := query[12 : end+5] // with the root label, type and class
	text, err := os.ReadFile(filepath.Join(dir, strings.TrimSuffix(name, testZone)))
	flags, answers := uint16(0x8580), uint16(1) // an authoritative response
	if err != nil {
		flags, answers = 0x8583, 0 // no such name
	}
	a := append([]byte(nil), query[:2]...)
	for _, v := range []uint16{flags, 1, answers, 0, 0} {
		a = binary.BigEndian.AppendUint16(a, v)
	}
	a = append(a, question...)
	if answers == 0 {
		return a
	}
	var data []byte
	for part := range slices.Chunk(text, 255) { // a string of a record has at most 255 bytes
		data = append(append(data, byte(len(part))), part...)
	}
	a = append(a, 0xc0, 12, 0, 16, 0, 1, 0, 0, 0, 0) // the question's name, TXT, IN, lifetime 0
	return append(binary.BigEndian.AppendUint16(a, uint16(len(data))), data...)
}

// noNetwork is a process attribute: a network namespace of its own, where nothing is up.
func noNetwork() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if uid := os.Getuid(); uid != 0 {
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}}
	}
	return attr
}

// Worker addresses need no IP: processes that have no network meet by what they can
// read, and move data through shared memory.
func TestAddressExchangeWithoutNetwork(t *testing.T) {
	for _, kind := range []string{"file", "dns"} {
		t.Run(kind, func(t *testing.T) {
			dir := t.TempDir()
			if kind == "dns" {
				l, err := net.Listen("unix", filepath.Join(dir, "dns"))
				if err != nil {
					t.Fatal(err)
				}
				defer l.Close()
				go func() {
					for {
						c, err := l.Accept()
						if err != nil {
							return
						}
						go serveTXT(c, dir)
					}
				}()
			}
			h := startHelperWith(t, "exchange", noNetwork(), exchangeDir+"="+dir, exchangeKind+"="+kind)
			h.hear("moved")
			h.quit()
		})
	}
}
