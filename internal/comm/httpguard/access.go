package httpguard

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Config specifies who may use an HTTP server.
type Config struct {
	// Token is the secret that every request except those for /health must have. With "" requests on the loopback
	// interface need none, and a server on another address has a random token; None admits every request.
	Token string
	// TLS is the configuration of the cluster's listeners, nil if the cluster has no certificates. A server that is not
	// on the loopback interface then uses TLS.
	TLS *tls.Config
	// Admit reports whether a request may be served because of the certificate of its connection, which is one of the
	// cluster; nil admits no request for its certificate.
	Admit func(*tls.ConnectionState, *http.Request) bool
	// Contact is the host of the server's address, Hosts are further names that requests may use (see Guard), such as
	// that of a reverse proxy.
	Contact string
	Hosts   []string
	// Logger receives warnings. The token is never logged.
	Logger *slog.Logger
}

// Access decides which requests of an HTTP server are served.
type Access struct {
	cfg      Config
	token    string // "" if none is needed
	cookie   string // name of the cookie
	value    string // of the cookie
	tls      *tls.Config
	refusals limiter
	warnings limiter
}

// NewAccess returns the Access of a server that listens at an address.
func NewAccess(listening net.Addr, cfg Config) (*Access, error) {
	if err := CheckToken(cfg.Token); err != nil {
		return nil, err
	}
	a := &Access{cfg: cfg, refusals: limiter{rate: 20, burst: 100}, warnings: limiter{rate: 0.1, burst: 1}}
	tcp, _ := listening.(*net.TCPAddr)
	local := tcp != nil && tcp.IP.IsLoopback()
	switch {
	case cfg.Token == None && !local:
		cfg.Logger.Warn("INSECURE: dashboard without a token; every peer that reaches it can see what the cluster does",
			"address", listening.String())
	case cfg.Token == None || cfg.Token == "" && local:
	case cfg.Token == "":
		a.token = NewToken()
	default:
		a.token = cfg.Token
	}
	if !local && cfg.TLS != nil {
		a.tls = serverTLS(cfg.TLS)
	}
	if tcp != nil {
		// Cookies of a host are shared by all its ports: servers on the same host must not replace those of others.
		a.cookie = "millstream-" + strconv.Itoa(tcp.Port)
	}
	a.value = cookieValue(a.token, a.cookie)
	return a, nil
}

// NeedsToken reports whether a server at host:port must have a token: whether some address of the host is not one of
// the loopback interface.
func NeedsToken(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return true
	}
	addrs, err := net.DefaultResolver.LookupIPAddr(context.Background(), host)
	return err != nil || len(addrs) == 0 ||
		slices.ContainsFunc(addrs, func(a net.IPAddr) bool { return !a.IP.IsLoopback() })
}

// Protected reports whether requests need a token or a certificate.
func (a *Access) Protected() bool { return a.token != "" }

// Serve serves the requests of a listener that are admitted with s.Handler. It sets fields of s.
func (a *Access) Serve(s *http.Server, l net.Listener) error {
	s.Handler = a.Handler(s.Handler)
	if a.tls != nil {
		l = &sniffing{Listener: l, config: a.tls}
		s.ConnContext = connContext
	}
	return s.Serve(l)
}

// policy lets pages load scripts, styles and data from their own server only.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; " +
	"connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// Policy returns a Content-Security-Policy for a page that has further sources of styles and scripts, such as
// "'sha256-…'".
func Policy(styles, scripts string) string {
	p := strings.Replace(policy, "style-src 'self'", strings.TrimSpace("style-src 'self' "+styles), 1)
	return strings.Replace(p, "script-src 'self'", strings.TrimSpace("script-src 'self' "+scripts), 1)
}

// Handler returns a handler that passes on the requests that are admitted. It sets headers of responses, which next may
// change.
func (a *Access) Handler(next http.Handler) http.Handler {
	checked := Guard(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { a.serve(next, w, r) }),
		append([]string{a.cfg.Contact}, a.cfg.Hosts...)...)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer") // URLs may have the token
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		if c, ok := r.Context().Value(connKey{}).(*sniffed); ok {
			r.TLS = c.state()
		}
		checked.ServeHTTP(w, r)
	})
}

func (a *Access) serve(next http.Handler, w http.ResponseWriter, r *http.Request) {
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead
	switch {
	case a.foreign(r):
		a.refuse(w, r, http.StatusForbidden, "requests of other web pages are not allowed; open the dashboard in a "+
			"tab of its own")
		return
	case r.URL.Path == "/health" && reads:
		next.ServeHTTP(w, r)
		return
	case a.token == "":
		next.ServeHTTP(w, r)
		return
	case a.tls != nil && r.TLS == nil && reads:
		http.Redirect(w, r, "https://"+r.Host+without(r.URL), http.StatusTemporaryRedirect)
		return
	case a.tls != nil && r.TLS == nil:
		a.refuse(w, r, http.StatusForbidden, "requests must use https")
		return
	}
	query, asked := r.URL.Query()["token"]
	if asked && reads && equal(query[0], a.token) {
		http.SetCookie(w, &http.Cookie{Name: a.cookie, Value: a.value, Path: "/", HttpOnly: true,
			Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode})
		a.redirect(w, r)
		return
	}
	given := asked
	bearer, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if ok && equal(strings.TrimSpace(bearer), a.token) {
		next.ServeHTTP(w, r)
		return
	}
	given = given || ok
	for _, c := range r.CookiesNamed(a.cookie) {
		if equal(c.Value, a.value) {
			if asked && reads { // a link of an earlier server
				a.redirect(w, r)
				return
			}
			next.ServeHTTP(w, r)
			return
		}
		given = true
	}
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 && a.cfg.Admit != nil {
		if a.cfg.Admit(r.TLS, r) {
			next.ServeHTTP(w, r)
			return
		}
		a.refuse(w, r, http.StatusForbidden, "the role of the certificate does not allow this request")
		return
	}
	if given {
		if a.warnings.allow() {
			a.cfg.Logger.Warn("HTTP request refused: wrong token", "peer", r.RemoteAddr)
		}
		a.refuse(w, r, http.StatusUnauthorized, "wrong token")
		return
	}
	a.refuse(w, r, http.StatusUnauthorized, "this page needs a token")
}

// foreign reports whether a browser sends the request for a page of another server. A link on such a page may be
// followed.
func (a *Access) foreign(r *http.Request) bool {
	for _, origin := range r.Header.Values("Origin") {
		u, err := url.Parse(origin)
		if err != nil || u.Host == "" || !strings.EqualFold(u.Host, r.Host) && !slices.ContainsFunc(a.cfg.Hosts,
			func(h string) bool { return h != "" && strings.EqualFold(h, u.Hostname()) }) {
			return true
		}
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
		return false
	}
	follows := (r.Method == http.MethodGet || r.Method == http.MethodHead) &&
		r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
	return !follows
}

// fromElsewhere reports whether a browser comes from a page of another server, so that it does not send cookies with
// SameSite=Strict, not even after a redirect.
func fromElsewhere(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "same-origin", "none":
		return false
	case "":
		u, err := url.Parse(r.Referer())
		return err == nil && u.Host != "" && !strings.EqualFold(u.Host, r.Host)
	}
	return true
}

// without returns the path and the query of a URL without its token, as a path of this server.
func without(u *url.URL) string {
	q := u.Query()
	q.Del("token")
	to := url.URL{Path: "/" + strings.TrimLeft(u.Path, `/\`), RawQuery: q.Encode()}
	return to.RequestURI()
}

// redirect sends a browser to the same page without the token.
func (a *Access) redirect(w http.ResponseWriter, r *http.Request) {
	to := without(r.URL)
	if !fromElsewhere(r) {
		http.Redirect(w, r, to, http.StatusSeeOther)
		return
	}
	// The browser sends the cookie if a page of this server opens the next one.
	writePage(w, http.StatusOK, page{Title: "Millstream", Refresh: to})
}

func (a *Access) refuse(w http.ResponseWriter, r *http.Request, code int, why string) {
	if !a.refusals.allow() {
		w.Header().Set("Retry-After", "1")
		http.Error(w, "too many requests without access", http.StatusTooManyRequests)
		return
	}
	fix := ""
	if code == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="millstream"`)
		fix = "Open the link with ?token=… that the process printed when it started, or send the token as " +
			"\"Authorization: Bearer TOKEN\". Set it with --dashboard-token or --dashboard-token-file."
		if a.tls != nil {
			fix += " A client certificate of the cluster is accepted, too."
		}
	}
	if !strings.Contains(r.Header.Get("Accept"), "text/html") {
		http.Error(w, strings.TrimSpace(why+"\n"+fix), code)
		return
	}
	p := page{Title: fmt.Sprintf("%d %s", code, http.StatusText(code)), Text: []string{why, fix},
		Form: code == http.StatusUnauthorized}
	if p.Form && fromElsewhere(r) {
		p.Refresh = without(r.URL) // now with the cookie, if there is one
	}
	writePage(w, code, p)
}
