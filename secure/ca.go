package secure

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"time"
)

// Default validity periods.
const (
	// DefaultCAValid is how long a CA is valid.
	DefaultCAValid = 10 * 365 * 24 * time.Hour
	// DefaultCertValid is how long a certificate is valid.
	DefaultCertValid = 365 * 24 * time.Hour
)

// skew is the tolerated difference of clocks.
const skew = 10 * time.Minute

// CAConfig configures a new CA. Its zero value is for a new cluster.
type CAConfig struct {
	// Cluster is the cluster's name, which is part of the URIs of roles (default: random).
	Cluster string
	// Ed25519 selects Ed25519 keys. The default, ECDSA on P-256, is supported by every build of Python and all common
	// tools.
	Ed25519 bool
	// Valid is the validity period (default 10 years).
	Valid time.Duration
}

// CA issues the certificates of one cluster. It is safe for concurrent use.
type CA struct {
	cluster string
	ed25519 bool
	cert    *x509.Certificate
	key     crypto.Signer
}

func newKey(ed bool) (crypto.Signer, error) {
	if ed {
		_, key, err := ed25519.GenerateKey(rand.Reader)
		return key, err
	}
	return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
}

func newSerial() (*big.Int, error) {
	// 127 bits: positive in 16 bytes, the maximum of many tools.
	return rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
}

// NewCA returns a CA with a new key.
func NewCA(cfg CAConfig) (*CA, error) {
	if cfg.Cluster == "" {
		var id [8]byte
		if _, err := rand.Read(id[:]); err != nil {
			return nil, err
		}
		cfg.Cluster = hex.EncodeToString(id[:])
	}
	if u, err := url.Parse(roleURI(cfg.Cluster, Worker).String()); err != nil || u.Host != cfg.Cluster {
		return nil, fmt.Errorf("secure: invalid cluster name %q: use letters, digits, "+
			"dots and hyphens", cfg.Cluster)
	}
	if cfg.Valid <= 0 {
		cfg.Valid = DefaultCAValid
	}
	key, err := newKey(cfg.Ed25519)
	if err != nil {
		return nil, err
	}
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: "millstream " + cfg.Cluster},
		NotBefore:    now.Add(-skew), NotAfter: now.Add(cfg.Valid),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("secure: create a CA: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &CA{cluster: cfg.Cluster, ed25519: cfg.Ed25519, cert: cert, key: key}, nil
}

// LoadCA parses a CA from PEM: its certificate, and its key in the same or another text.
func LoadCA(certPEM, keyPEM []byte) (*CA, error) {
	block, _ := pem.Decode(certPEM)
	if block == nil || block.Type != "CERTIFICATE" {
		return nil, errors.New("secure: CA certificate is not in PEM form")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("secure: CA certificate: %w", err)
	}
	if !cert.IsCA {
		return nil, errors.New("secure: certificate is not a CA certificate")
	}
	key, err := parseKey(keyPEM)
	if err != nil {
		return nil, fmt.Errorf("secure: CA key: %w", err)
	}
	if pub, ok := key.Public().(interface{ Equal(crypto.PublicKey) bool }); !ok || !pub.Equal(cert.PublicKey) {
		return nil, errors.New("secure: CA key does not match the certificate")
	}
	_, ed := key.(ed25519.PrivateKey)
	cluster := cert.Subject.CommonName
	if n := len("millstream "); len(cluster) > n && cluster[:n] == "millstream " {
		cluster = cluster[n:]
	}
	return &CA{cluster: cluster, ed25519: ed, cert: cert, key: key}, nil
}

// Cluster returns the cluster's name.
func (ca *CA) Cluster() string { return ca.cluster }

// PEM returns the CA's certificate, which is public.
func (ca *CA) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.cert.Raw})
}

// KeyPEM returns the CA's key. A process with the key can issue certificates.
func (ca *CA) KeyPEM() ([]byte, error) { return marshalKey(ca.key) }

// Fingerprint returns the SHA-256 of the CA's certificate.
func (ca *CA) Fingerprint() [32]byte { return sha256.Sum256(ca.cert.Raw) }

// Request specifies the certificate to issue.
type Request struct {
	// Name is the common name (default: the roles).
	Name string
	// Roles are the roles of the certificate. A certificate without roles has all.
	Roles []Role
	// Hosts are host names and IP addresses. They are not checked within a cluster, but by browsers and other clients.
	Hosts []string
	// Valid is the validity period (default a year, at most that of the CA).
	Valid time.Duration
}

// Issue creates a new key and its certificate.
func (ca *CA) Issue(req Request) (*Identity, error) {
	key, err := newKey(ca.ed25519)
	if err != nil {
		return nil, err
	}
	cert, err := ca.sign(key.Public(), req)
	if err != nil {
		return nil, err
	}
	keyPEM, err := marshalKey(key)
	if err != nil {
		return nil, err
	}
	return &Identity{Cert: cert, Key: keyPEM, CA: ca.PEM()}, nil
}

// Sign issues a certificate for the key of a PKCS #10 request in DER form, whose signature proves the possession of the
// key. The other fields of the request are ignored.
func (ca *CA) Sign(csr []byte, req Request) ([]byte, error) {
	r, err := x509.ParseCertificateRequest(csr)
	if err != nil {
		return nil, fmt.Errorf("secure: certificate request: %w", err)
	}
	if err := r.CheckSignature(); err != nil {
		return nil, fmt.Errorf("secure: certificate request: %w", err)
	}
	return ca.sign(r.PublicKey, req)
}

func (ca *CA) sign(pub crypto.PublicKey, req Request) ([]byte, error) {
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	if req.Valid <= 0 {
		req.Valid = DefaultCertValid
	}
	name := req.Name
	if name == "" {
		name = fmt.Sprint("millstream ", req.Roles)
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    now.Add(-skew), NotAfter: now.Add(req.Valid),
		KeyUsage: x509.KeyUsageDigitalSignature,
		// Every process of a cluster both listens and connects.
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		BasicConstraintsValid: true,
	}
	if template.NotAfter.After(ca.cert.NotAfter) {
		template.NotAfter = ca.cert.NotAfter
	}
	for _, r := range req.Roles {
		if err := r.check(); err != nil {
			return nil, err
		}
		template.URIs = append(template.URIs, roleURI(ca.cluster, r))
	}
	for _, h := range req.Hosts {
		if ip := net.ParseIP(h); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, h)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.cert, pub, ca.key)
	if err != nil {
		return nil, fmt.Errorf("secure: issue a certificate: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}
