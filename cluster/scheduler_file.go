package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"go.millstream.dev/secure"
)

// SchedulerFile is the content of the file that a scheduler writes for workers and clients on a shared file system. The
// file has the format of Dask, which reads the address and ignores the rest.
type SchedulerFile struct {
	// Address is the address of the scheduler.
	Address string `json:"address"`
	// TLS has the paths of the certificates; nil without TLS.
	TLS *SchedulerFileTLS `json:"tls,omitempty"`
}

// SchedulerFileTLS has absolute paths. The file never contains keys: they stay in files that only their owner can read.
type SchedulerFileTLS struct {
	// Dir is the folder of --tls-dir; empty if certificates were specified one by one.
	Dir string `json:"dir,omitempty"`
	// CAFile, ClientCert and ClientKey are the files for clients.
	CAFile     string `json:"ca-file,omitempty"`
	ClientCert string `json:"client-cert,omitempty"`
	ClientKey  string `json:"client-key,omitempty"`
}

// NewSchedulerFileTLS returns the paths of the certificates of a cluster, nil if there are none. Certificates that are
// specified as PEM text have no path and are omitted.
func NewSchedulerFileTLS(dir string, s secure.Security) *SchedulerFileTLS {
	t := new(SchedulerFileTLS)
	for _, p := range []struct {
		from string
		to   *string
	}{{dir, &t.Dir}, {s.CAFile, &t.CAFile}, {s.Client.Cert, &t.ClientCert}, {s.Client.Key, &t.ClientKey}} {
		if p.from == "" || strings.Contains(p.from, "\n") {
			continue
		}
		if path, err := filepath.Abs(p.from); err == nil {
			*p.to = path
		}
	}
	if *t == (SchedulerFileTLS{}) {
		return nil
	}
	return t
}

// security adds the paths of the file.
func (t *SchedulerFileTLS) security(s secure.Security) secure.Security {
	if t.CAFile != "" && t.ClientCert != "" {
		s.CAFile, s.Client = t.CAFile, secure.KeyPair{Cert: t.ClientCert, Key: t.ClientKey}
	}
	return s
}

// ReadSchedulerFile reads a scheduler file. It waits for the file until ctx ends.
func ReadSchedulerFile(ctx context.Context, path string) (SchedulerFile, error) {
	t := time.NewTicker(10 * time.Millisecond)
	defer t.Stop()
	for {
		text, err := readNow(ctx, path)
		switch {
		case err == nil && json.Valid(text): // Dask does not write the file atomically
			var file SchedulerFile
			if err := json.Unmarshal(text, &file); err != nil || file.Address == "" {
				return file, fmt.Errorf("scheduler file %s has no address: was it written by `scheduler "+
					"--scheduler-file`?", path)
			}
			return file, nil
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return SchedulerFile{}, fmt.Errorf("scheduler file: %w", err)
		}
		select {
		case <-ctx.Done():
			return SchedulerFile{}, fmt.Errorf("scheduler file %s not written by a scheduler: %w", path,
				context.Cause(ctx))
		case <-t.C:
		}
	}
}

// maxSchedulerFile bounds the size of a scheduler file in bytes.
const maxSchedulerFile = 1 << 20

// readNow reads a file until ctx ends. A named pipe without a writer is empty.
func readNow(ctx context.Context, path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	stop := context.AfterFunc(ctx, func() { _ = f.SetReadDeadline(time.Unix(1, 0)) }) // only pipes can block
	defer stop()
	text, err := io.ReadAll(io.LimitReader(f, maxSchedulerFile))
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, nil
	}
	return text, err
}
