package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"go.millstream.dev/cluster"
	"go.millstream.dev/comm"
	"go.millstream.dev/comm/ucxcomm"
	"go.millstream.dev/config"
	"go.millstream.dev/internal/comm/commaddr"
	"go.millstream.dev/internal/proc/cmdline"
	"go.millstream.dev/secure"
)

// serverFlags are the common flags of `scheduler` and `worker`, with the names of Dask.
type serverFlags struct {
	role               secure.Role
	host, iface        string
	protocol           string
	caFile, cert, key  string
	tlsDir             string
	insecure           bool
	dashboardAddress   string
	dashboardDefault   string
	dashboardHosts     []string
	dashboardToken     string
	dashboardTokenFile string
	addressFile        string
	dashboard, without bool
	pidFile            string
	schedulerFile      string
	preload            []string
	preloadArgv        []string
	log                cluster.LogSpec
	ucx                *ucxFlags
}

func (f *serverFlags) add(fs *pflag.FlagSet, role secure.Role) {
	f.role = role
	fs.SortFlags = false
	fs.StringVar(&f.host, "host", "", "URI, IP address or host name to listen on")
	fs.StringVar(&f.addressFile, "address-file", "", "file with the UCX worker address of the scheduler, instead of "+
		"IP addresses")
	fs.StringVar(&f.iface, "interface", "", "network interface to listen on, such as eth0 or ib0")
	fs.StringVar(&f.protocol, "protocol", "", "protocol: tcp, tls, ucx or ucxx (default tls with certificates, else "+
		"tcp)")
	fs.StringVar(&f.caFile, "tls-ca-file", "", "certificate of the CA, in PEM format")
	fs.StringVar(&f.cert, "tls-cert", "", "certificate of this process, in PEM format")
	fs.StringVar(&f.key, "tls-key", "", "private key of this process, in PEM format")
	fs.StringVar(&f.tlsDir, "tls-dir", "", "folder with the certificates of the cluster; the scheduler creates it")
	fs.BoolVar(&f.insecure, "insecure", false, "listen on a network without encryption, where every peer can run "+
		"code here")
	fs.StringVar(&f.pidFile, "pid-file", "", "file for the process ID")
	fs.StringArrayVar(&f.preload, "preload", nil, "Python module, .py `file` or URL whose dask_setup runs at the "+
		"start; may be repeated")
	fs.StringArrayVar(&f.preloadArgv, "preload-argv", nil, "argument of a dask_setup that is a click command; may be "+
		"repeated; also after --")
	fs.StringVar(&f.log.Format, "log-format", "text", "log format: text or json")
	fs.StringVar(&f.log.Level, "log-level", "info", "log level: debug, info, warning or error")
}

// check checks the flags without access to the machine.
func (f *serverFlags) check() error {
	switch {
	case len(f.preloadArgv) > 0 && len(f.preload) == 0:
		return cmdline.Usagef("--preload-argv %s needs --preload", f.preloadArgv[0])
	case f.tlsDir != "" && (f.caFile != "" || f.cert != "" || f.key != ""):
		return cmdline.Usagef("--tls-dir excludes --tls-ca-file, --tls-cert and --tls-key")
	case (f.caFile == "") != (f.cert == ""):
		return cmdline.Usagef("--tls-ca-file and --tls-cert must be used together")
	case f.key != "" && f.cert == "":
		return cmdline.Usagef("--tls-key needs --tls-cert")
	}
	if _, err := f.log.New(io.Discard); err != nil {
		return cmdline.Usage(err)
	}
	return f.checkToken()
}

// apply adds the flags to the configuration of the process, until restore is called. env has the same settings for its
// children.
func (f *serverFlags) apply() (env []string, restore func(), err error) {
	restore = func() {}
	if f.tlsDir != "" {
		f.caFile = filepath.Join(f.tlsDir, "ca.pem")
		f.cert = filepath.Join(f.tlsDir, string(f.role)+"-cert.pem")
		f.key = filepath.Join(f.tlsDir, string(f.role)+"-key.pem")
	}
	c, err := config.Default()
	if err != nil {
		return nil, restore, err
	}
	values, token, err := f.tokenSettings(c)
	if err != nil {
		return nil, restore, err
	}
	if f.caFile != "" {
		if values == nil {
			values = map[string]any{}
		}
		base := "distributed.comm.tls."
		values[base+"ca-file"], values[base+string(f.role)+".cert"] = f.caFile, f.cert
		if f.key != "" {
			values[base+string(f.role)+".key"] = f.key
		}
	}
	if len(values) > 0 {
		if restore, err = c.SetFrom(config.Source{Kind: config.KindFlag, Name: "flags"}, values); err != nil {
			return nil, func() {}, err
		}
	}
	if f.caFile != "" {
		s, err := secure.FromConfig(c)
		if err == nil {
			_, err = s.Dial(f.role) // reports missing files now
		}
		if err != nil {
			restore()
			return nil, func() {}, err
		}
		env = s.Env()
	}
	return append(env, token...), restore, nil
}

// ucxSettings returns the settings of UCX comms from flags and configuration, and all settings they were derived from.
func (f *serverFlags) ucxSettings() (*ucxcomm.Settings, *config.Settings, error) {
	o, err := f.ucx.overrides()
	if err != nil {
		return nil, nil, err
	}
	c, err := config.Default()
	if err != nil {
		return nil, nil, err
	}
	settings, err := c.Settings(o)
	if err != nil {
		return nil, nil, err
	}
	s := ucxcomm.FromConfig(settings)
	return &s, settings, nil
}

// networkOf returns the network of this machine with the UCX settings of a configuration.
func networkOf(c *config.Config) (comm.Network, error) {
	s, err := c.Settings(config.Overrides{})
	if err != nil {
		return nil, err
	}
	return ucxcomm.NewNetwork(ucxcomm.FromConfig(s)), nil
}

// scheme returns the scheme of the addresses to listen on if --protocol is not set.
func (f *serverFlags) scheme() (string, error) {
	if f.protocol != "" || strings.Contains(f.host, "://") {
		return f.protocol, nil
	}
	c, err := config.Default()
	if err != nil {
		return "", err
	}
	s, err := secure.FromConfig(c)
	if err != nil {
		return "", err
	}
	if s.Available(f.role) {
		return "tls", nil
	}
	return c.String("distributed.comm.default-scheme", commaddr.DefaultScheme)
}

// guard rejects unencrypted addresses outside the loopback interface, unless --insecure is set; then it logs a warning.
func (f *serverFlags) guard(address string, log *slog.Logger) error {
	scheme, loc := commaddr.Parse(address)
	switch {
	case scheme == "inproc" || !slices.Contains(comm.Schemes(), scheme):
		return cmdline.Usagef("protocol %s: want tcp, tls, ucx or ucxx", scheme)
	case scheme == "tls" || scheme == ucxcomm.FileScheme: // file permissions control access
		return nil
	}
	host, _, err := commaddr.ParsePortRange(loc, commaddr.Ports{})
	if err != nil {
		return cmdline.Usage(err)
	}
	if isLoopback(host) {
		return nil
	}
	if !f.insecure {
		return cmdline.Usagef("%s is not encrypted, and every peer that reaches it could run code here; use --tls-dir "+
			"DIR, --host 127.0.0.1 for this machine only, or --insecure on a network that you trust", address)
	}
	log.Warn("INSECURE: listening without encryption; every peer can run code here and read all data", "address",
		address)
	return nil
}

func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return ip != nil && ip.IsLoopback()
}

// writePID writes the process ID to --pid-file; remove removes the file.
func (f *serverFlags) writePID() (remove func(), err error) {
	if f.pidFile == "" {
		return func() {}, nil
	}
	if err := os.WriteFile(f.pidFile, []byte(strconv.Itoa(os.Getpid())), 0o644); err != nil {
		return nil, fmt.Errorf("--pid-file: %w", err)
	}
	return func() { _ = os.Remove(f.pidFile) }, nil
}

// exists reports whether a file exists.
func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
