package secure

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.millstream.dev/config"
)

func TestWriteFiles(t *testing.T) {
	ca := newTestCA(t, CAConfig{})
	dir := filepath.Join(t.TempDir(), "new", "certs")
	s, err := ca.WriteFiles(dir)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder: %v, %v", info, err)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 7 {
		t.Errorf("%d files, %v", len(files), err)
	}
	for _, f := range files {
		info, err := f.Info()
		if err != nil {
			t.Fatal(err)
		}
		if secret := strings.Contains(f.Name(), "key"); secret != (info.Mode().Perm() == 0o600) {
			t.Errorf("%s has mode %v", f.Name(), info.Mode())
		}
	}
	if _, err := ca.WriteFiles(dir); err != nil {
		t.Errorf("a second time: %v", err)
	}
	dial, err := s.Dial(Client)
	if err != nil {
		t.Fatal(err)
	}
	listen, err := s.Listen(Scheduler)
	if err != nil {
		t.Fatal(err)
	}
	if roles, c, srv := talk(t, dial, listen); c != nil || srv != nil || len(roles) != 1 || roles[0] != Client {
		t.Errorf("the files' identities: %v, %v, %v", c, srv, roles)
	}
	if dial.MinVersion != tls.VersionTLS12 || dial.MaxVersion != 0 {
		t.Errorf("versions %x to %x", dial.MinVersion, dial.MaxVersion)
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ca.WriteFiles(filepath.Join(dir, "file")); err == nil {
		t.Error("files were written into a file")
	}
}

// What was written is found again, also where a machine has not all of the keys.
func TestFilesIn(t *testing.T) {
	dir := t.TempDir()
	if _, err := FilesIn(dir); err == nil {
		t.Error("an empty folder has certificates")
	}
	s, err := newTestCA(t, CAConfig{}).WriteFiles(dir)
	if err != nil {
		t.Fatal(err)
	}
	if found, err := FilesIn(dir); err != nil || *found != *s {
		t.Errorf("%+v, %v", found, err)
	}
	if err := os.Remove(s.Scheduler.Key); err != nil {
		t.Fatal(err)
	}
	found, err := FilesIn(dir)
	if err != nil || found.Scheduler != (KeyPair{}) || found.Client != s.Client || found.CAFile != s.CAFile {
		t.Errorf("%+v, %v", found, err)
	}
}

// What Env says is what FromConfig reads.
func TestFromConfig(t *testing.T) {
	ca := newTestCA(t, CAConfig{})
	s, err := ca.WriteFiles(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s.MinVersion = "1.3"
	s.Ciphers = "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-CHACHA20-POLY1305"
	cfg, err := config.Load(config.Options{Env: s.Env(), Paths: []string{}})
	if err != nil {
		t.Fatal(err)
	}
	got, err := FromConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if got != *s {
		t.Errorf("got  %+v\nwant %+v", got, *s)
	}
	dial, err := got.Dial(Worker)
	if err != nil || dial.MinVersion != tls.VersionTLS13 || len(dial.CipherSuites) != 2 {
		t.Errorf("%v, %v", dial, err)
	}
}

func TestBadSettings(t *testing.T) {
	ca := newTestCA(t, CAConfig{})
	s, err := ca.WriteFiles(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		change func(*Security)
		want   string
	}{
		{func(s *Security) { s.CAFile = "" }, "distributed.comm.tls.ca-file"},
		{func(s *Security) { s.Worker.Cert = "" }, "distributed.comm.tls.worker.cert"},
		{func(s *Security) { s.Worker.Key = "/nowhere.pem" }, "/nowhere.pem"},
		{func(s *Security) { s.Worker.Key = "" }, "private key"},
		{func(s *Security) { s.Worker.Key = s.Client.Key }, "certificate and key"},
		{func(s *Security) { s.CAFile = s.Worker.Key }, "no certificate"},
		{func(s *Security) { s.MinVersion = "1.1" }, "min-version"},
		{func(s *Security) { s.MaxVersion = "2" }, "max-version"},
		{func(s *Security) { s.Ciphers = "HIGH:!aNULL" }, "ECDHE-RSA-AES128-GCM-SHA256"},
	} {
		bad := *s
		c.change(&bad)
		if _, err := bad.Listen(Worker); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("want an error about %s, got %v", c.want, err)
		}
		if _, err := bad.Dial(Worker); err == nil {
			t.Errorf("dial with a bad %s", c.want)
		}
	}
	if _, err := s.Dial("emperor"); err == nil {
		t.Error("a role that does not exist")
	}
	if !s.Available(Viewer) || (&Security{}).Available(Client) {
		t.Error("Available")
	}
}

// A key may follow its certificate in one file, and texts may stand in place of files.
func TestInline(t *testing.T) {
	ca := newTestCA(t, CAConfig{})
	id := issue(t, ca, Request{})
	s := Security{CAFile: string(id.CA), Client: KeyPair{Cert: string(id.Cert) + string(id.Key)},
		Scheduler: KeyPair{Cert: string(id.Cert), Key: string(id.Key)}}
	dial, err := s.Dial(Client)
	if err != nil {
		t.Fatal(err)
	}
	listen, err := s.Listen(Scheduler)
	if err != nil {
		t.Fatal(err)
	}
	if roles, c, srv := talk(t, dial, listen); c != nil || srv != nil || len(roles) != len(Roles()) {
		t.Errorf("%v, %v, %v", c, srv, roles)
	}
}

func TestPython(t *testing.T) {
	s := Security{RequireEncryption: true, CAFile: `it's\ca.pem`, Worker: KeyPair{Cert: "w.pem"}}
	want := `Security(require_encryption=True, tls_ca_file='it\'s\\ca.pem', tls_worker_cert='w.pem')`
	if got := s.Python(); got != want {
		t.Errorf("got %s", got)
	}
}
