package cli

import (
	"cmp"
	"net"
	"path/filepath"

	"github.com/spf13/pflag"

	"go.millstream.dev/comm/ucxcomm"
	"go.millstream.dev/config"
	"go.millstream.dev/internal/comm/commaddr"
	"go.millstream.dev/internal/comm/httpguard"
	"go.millstream.dev/internal/proc/cmdline"
	"go.millstream.dev/scheduler"
	"go.millstream.dev/secure"
)

// byFile returns the address for --address-file, "" without the flag.
func (f *serverFlags) byFile() (string, error) {
	if f.addressFile == "" {
		return "", nil
	}
	for flag, value := range map[string]string{"--host": f.host, "--interface": f.iface, "--protocol": f.protocol} {
		if value != "" {
			return "", cmdline.Usagef("--address-file excludes %s", flag)
		}
	}
	path, err := filepath.Abs(f.addressFile)
	if err != nil {
		return "", cmdline.Usagef("--address-file: %v", err)
	}
	return commaddr.Unparse(ucxcomm.FileScheme, path), nil
}

// isFile reports whether an address is an address file.
func isFile(address string) bool {
	scheme, _ := commaddr.Parse(address)
	return scheme == ucxcomm.FileScheme
}

// httpBeside returns the HTTP address of a process that listens on address, "" for none. A process with an address file
// has an HTTP server only if --dashboard-address is set.
func (f *serverFlags) httpBeside(address string) string {
	if isFile(address) && f.dashboardAddress == f.dashboardDefault {
		return ""
	}
	address = f.http()
	if address == "" {
		return ""
	}
	if full, err := httpguard.Address(address, f.httpHost()); err == nil {
		return full
	}
	return address // the server reports the error
}

// httpHost returns the host for HTTP if --dashboard-address has none: that of --host or --interface, "" for the
// loopback interface.
func (f *serverFlags) httpHost() string {
	if f.host != "" {
		_, loc := commaddr.Parse(firstOf(f.host))
		if host, _, err := commaddr.ParseHostPort(loc, 0); err == nil {
			return host
		}
	}
	if f.iface != "" {
		if ip, err := commaddr.InterfaceIP(firstOf(f.iface)); err == nil {
			return ip
		}
	}
	return ""
}

// browserAddress returns the host:port for browsers from the address of an HTTP server. For a server on all interfaces
// it uses the host of the scheduler address.
func browserAddress(listening, scheduler string) string {
	host, port, err := net.SplitHostPort(listening)
	if err != nil {
		return listening
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
		_, loc := commaddr.Parse(scheduler)
		if h, _, err := net.SplitHostPort(loc); err == nil && h != "" {
			host = h
		}
	}
	return net.JoinHostPort(host, port)
}

// dashboardLink returns the URL for browsers of the HTTP server of a scheduler.
func dashboardLink(listening, contact string, cfg *scheduler.Config) string {
	tls := cfg.ListenConfig.TLS != nil && httpguard.NeedsToken(cfg.Dashboard)
	return httpguard.Link(browserAddress(listening, contact), cfg.DashboardToken, tls)
}

// Keys of the token of HTTP servers, and the variable of the first.
const (
	tokenKey     = "millstream.dashboard.token"
	tokenFileKey = "millstream.dashboard.token-file"
	tokenEnv     = "DASK_MILLSTREAM__DASHBOARD__TOKEN="
)

// addDashboard adds the HTTP flags, whose defaults differ between the two commands.
func (f *serverFlags) addDashboard(fs *pflag.FlagSet, address, usage string) {
	f.dashboardDefault = address
	fs.StringVar(&f.dashboardAddress, "dashboard-address", address, usage)
	fs.StringSliceVar(&f.dashboardHosts, "dashboard-hosts", nil, "further host names that HTTP requests may use, "+
		"besides IP addresses and the name of the machine")
	fs.StringVar(&f.dashboardToken, "dashboard-token", "", "token of HTTP requests, 16 or more letters and digits; "+
		"none: no token (default: none on the loopback interface, else a random one, which is printed)")
	fs.StringVar(&f.dashboardTokenFile, "dashboard-token-file", "", "`file` with the token, created if it does "+
		"not exist")
	fs.BoolVar(&f.dashboard, "dashboard", true, "HTTP server with /metrics, /health and JSON")
	fs.BoolVar(&f.without, "no-dashboard", false, "no HTTP server")
}

// http returns the host:port of the HTTP server, "" for none.
func (f *serverFlags) http() string {
	if f.without || !f.dashboard {
		return ""
	}
	return f.dashboardAddress
}

// checkToken checks the flags of the token.
func (f *serverFlags) checkToken() error {
	if f.dashboardToken != "" && f.dashboardTokenFile != "" {
		return cmdline.Usagef("--dashboard-token and --dashboard-token-file exclude each other")
	}
	if err := httpguard.CheckToken(f.dashboardToken); err != nil {
		return cmdline.Usage(err)
	}
	return nil
}

// tokenSettings returns the settings of the token flags, and creates the token file. env has the same for children.
func (f *serverFlags) tokenSettings(c *config.Config) (values map[string]any, env []string, err error) {
	file := f.dashboardTokenFile
	if file == "" && f.dashboardToken == "" && c.Get(tokenFileKey, nil) != nil {
		if file, err = c.String(tokenFileKey, ""); err != nil {
			return nil, nil, err
		}
	}
	if f.http() != "" && file != "" {
		if err := httpguard.CreateTokenFile(file); err != nil {
			return nil, nil, err
		}
	}
	if f.dashboardToken == "" && f.dashboardTokenFile == "" {
		return nil, nil, nil
	}
	// Flags replace both keys of the configuration.
	token, err := httpguard.Token(f.dashboardToken, file)
	if err != nil {
		return nil, nil, err
	}
	env = []string{tokenEnv + token, "DASK_MILLSTREAM__DASHBOARD__TOKEN_FILE=None"}
	return map[string]any{tokenKey: token, tokenFileKey: nil}, env, nil
}

// workerToken creates the token of workers at an HTTP address if they need one and the configuration has none. link
// returns the URL of the HTTP server of a worker, and is nil if it needs no token.
func workerToken(address string) (link func(address string) string, env []string, restore func(), err error) {
	restore = func() {}
	c, err := config.Default()
	if err != nil {
		return nil, nil, restore, err
	}
	text := func(key string) string { s, _ := c.Get(key, "").(string); return s }
	token, err := httpguard.Token(text(tokenKey), text(tokenFileKey))
	if err != nil {
		return nil, nil, restore, err
	}
	needed := address != "" && httpguard.NeedsToken(address)
	if token == "" && needed {
		token = httpguard.NewToken()
		env = []string{tokenEnv + token}
		if restore, err = c.SetFrom(config.Source{Kind: config.KindFlag, Name: "random"},
			map[string]any{tokenKey: token}); err != nil {
			return nil, nil, func() {}, err
		}
	}
	if token = cmp.Or(token, httpguard.None); token == httpguard.None {
		return nil, nil, restore, nil
	}
	trust, err := secure.FromConfig(c)
	if err != nil {
		return nil, nil, restore, err
	}
	tls := needed && trust.Available(secure.Worker)
	return func(address string) string { return httpguard.Link(address, token, tls) }, env, restore, nil
}
