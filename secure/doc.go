// Package secure issues and checks the credentials of a cluster: a certificate authority, certificates with roles,
// one-time tokens with which new processes get a certificate, and invitations that admit data connections.
//
// A cluster's certificates are files that Dask's Security reads:
//
//	ca, err := secure.NewCA(secure.CAConfig{})
//	files, err := ca.WriteFiles("certs")
//	fmt.Println(files.Python()) // Security(require_encryption=True, tls_ca_file=…)
//	dial, err := files.Dial(secure.Client)
//	listen, err := files.Listen(secure.Scheduler)
//
// The last two are for comm.DialConfig.TLS and comm.ListenConfig.TLS. As in Dask, both sides present a certificate, the
// chain to the CA is checked and host names are not.
package secure
