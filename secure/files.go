package secure

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// WriteFiles issues a certificate for each of Dask's roles and writes them with the CA's certificate into a directory,
// which it creates: ca.pem, client-cert.pem, client-key.pem and so on. Keys are readable by their owner only; the CA's
// own key is not written.
func (ca *CA) WriteFiles(dir string, hosts ...string) (*Security, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("secure: %w", err)
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	s := &Security{RequireEncryption: true, CAFile: filepath.Join(dir, "ca.pem")}
	if err := writeFile(s.CAFile, ca.PEM(), 0o644); err != nil {
		return nil, err
	}
	for _, r := range []Role{Client, Scheduler, Worker} {
		id, err := ca.Issue(Request{Roles: []Role{r}, Hosts: hosts})
		if err != nil {
			return nil, err
		}
		p := s.pair(r)
		p.Cert, p.Key = filepath.Join(dir, string(r)+"-cert.pem"), filepath.Join(dir, string(r)+"-key.pem")
		if err := writeFile(p.Key, id.Key, 0o600); err != nil {
			return nil, err
		}
		if err := writeFile(p.Cert, id.Cert, 0o644); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// FilesIn returns the Security of a directory of WriteFiles: the existing files; keys of some roles may be missing on
// this machine.
func FilesIn(dir string) (*Security, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	s := &Security{RequireEncryption: true, CAFile: filepath.Join(dir, "ca.pem")}
	if _, err := os.Stat(s.CAFile); err != nil {
		return nil, fmt.Errorf("secure: %w: no cluster certificates in the directory", err)
	}
	for _, r := range []Role{Client, Scheduler, Worker} {
		cert, key := filepath.Join(dir, string(r)+"-cert.pem"), filepath.Join(dir, string(r)+"-key.pem")
		if _, err := os.Stat(key); err == nil {
			p := s.pair(r)
			p.Cert, p.Key = cert, key
		}
	}
	return s, nil
}

// writeFile replaces a file atomically, with its mode set from the first byte on.
func writeFile(name string, data []byte, mode os.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(name), ".new-*") // 0600
	if err != nil {
		return fmt.Errorf("secure: %w", err)
	}
	_, err = f.Write(data)
	if e := f.Chmod(mode); err == nil {
		err = e
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return fmt.Errorf("secure: write %s: %w", name, err)
	}
	return nil
}

// field is one setting: Python's argument, Dask's key after distributed.comm., the value.
type field struct{ arg, key, value string }

func (s *Security) fields() []field {
	return []field{
		{"tls_ca_file", "tls.ca-file", s.CAFile},
		{"tls_client_cert", "tls.client.cert", s.Client.Cert},
		{"tls_client_key", "tls.client.key", s.Client.Key},
		{"tls_scheduler_cert", "tls.scheduler.cert", s.Scheduler.Cert},
		{"tls_scheduler_key", "tls.scheduler.key", s.Scheduler.Key},
		{"tls_worker_cert", "tls.worker.cert", s.Worker.Cert},
		{"tls_worker_key", "tls.worker.key", s.Worker.Key},
		{"tls_ciphers", "tls.ciphers", s.Ciphers},
	}
}

// Python returns the equivalent Python expression, for Client(security=…).
func (s *Security) Python() string {
	args := []string{"require_encryption=" + map[bool]string{false: "False", true: "True"}[s.RequireEncryption]}
	for _, f := range s.fields() {
		if f.value != "" {
			args = append(args, f.arg+"="+pythonString(f.value))
		}
	}
	return "Security(" + strings.Join(args, ", ") + ")"
}

func pythonString(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`, "\n", `\n`).Replace(s) + "'"
}

// Env returns the equivalent environment, NAME=value, for processes of Dask and Millstream.
func (s *Security) Env() []string {
	env := []string{"DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION=" +
		map[bool]string{false: "False", true: "True"}[s.RequireEncryption]}
	for _, f := range append(s.fields(), field{key: "tls.min-version", value: s.MinVersion},
		field{key: "tls.max-version", value: s.MaxVersion}) {
		if f.value != "" {
			name := strings.NewReplacer(".", "__", "-", "_").Replace(strings.ToUpper(f.key))
			env = append(env, "DASK_DISTRIBUTED__COMM__"+name+"="+f.value)
		}
	}
	return env
}
