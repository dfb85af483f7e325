// Package tcp carries comms over TCP: the schemes tcp:// and tls://, byte for byte like Dask. Importing it registers
// both with package comm; packages client, scheduler, worker and comm/ucxcomm do.
package tcp
